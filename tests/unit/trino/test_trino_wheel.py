"""The jar of the Trino plugin in a wheel, and the message of a wheel without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.wheel import checkout_without_jar, installed, ran

JAR = "adapters/pruner_trino/plugin/lake-pruner-trino.jar"


@pytest.mark.processes
def test_a_wheel_brings_the_jar_or_says_how_to_get_it(tmp_path: Path) -> None:
    """`make wheel` puts it where the wheel takes it from; without it, the commands report that it is missing."""
    checkout = checkout_without_jar(tmp_path)
    (tmp_path / "without").mkdir()
    site = installed(checkout, tmp_path / "without")
    for arguments in (["-m", "pruner_trino"], ["-m", "pruner", "trino-plugin", "plugins"]):
        without = ran(site, tmp_path, *arguments)
        assert (without.returncode, without.stdout) == (1, "")
        assert "make wheel" in without.stderr
        assert len(without.stderr.splitlines()) == 1
    assert not (tmp_path / "plugins").exists()
    (checkout / JAR).write_bytes(b"made by javac")
    (tmp_path / "with").mkdir()
    site = installed(checkout, tmp_path / "with")
    found = ran(site, tmp_path, "-m", "pruner_trino")
    assert found.returncode == 0, found.stderr
    jar = Path(found.stdout.strip())
    assert jar.is_relative_to(site)
    assert jar.read_bytes() == b"made by javac"
    written = ran(site, tmp_path, "-m", "pruner", "trino-plugin", "plugins")
    assert written.returncode == 0, written.stderr
    assert (tmp_path / "plugins" / jar.name).read_bytes() == b"made by javac"
    assert str(Path("plugins") / jar.name) in written.stdout
