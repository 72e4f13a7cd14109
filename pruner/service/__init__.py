"""The planner as an HTTP service, for engines that cannot run Python (docs/service.md)."""

from pruner.service.app import create_app
from pruner.service.served import Served
from pruner.service.settings import Limits, Settings

__all__ = ["Limits", "Served", "Settings", "create_app"]
