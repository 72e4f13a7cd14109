"""The planner as a service over HTTP, for engines that cannot run Python (docs/service.md)."""

from pruner.service.app import create_app
from pruner.service.settings import Limits, Settings

__all__ = ["Limits", "Settings", "create_app"]
