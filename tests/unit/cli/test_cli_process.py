"""The command line as a process: exit codes, streams, start-up, signals, terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from pruner.cli.failures import describe
from tests.support.running.patience import PATIENCE
from tests.unit.cli.conftest import Run, command_line

pytestmark = pytest.mark.processes

SLOW_IMPORTS = {"pyarrow", "numpy", "duckdb", "sqlglot", "obstore", "hudi", "rich", "msgspec"}


def test_exit_codes(run_process: Run, flights: Path) -> None:
    done = run_process("sql", f"CREATE INDEX stats ON '{flights}' (delay)")
    assert (done.code, done.err) == (0, "")
    failed = run_process("status", flights / "gone")
    assert (failed.code, failed.out) == (1, "")
    assert failed.err.startswith("error: ")
    wrong = run_process("plan", flights, "--where", "delay = = 1")
    assert (wrong.code, wrong.out) == (2, "")
    assert run_process("--no-such-option").code == 2


def test_without_a_command_the_help_is_shown(run_process: Run) -> None:
    ran = run_process()
    assert ran.code == 2
    assert "Usage: pruner" in ran.out + ran.err


def test_the_console_script_is_installed(flights: Path) -> None:
    script = Path(sys.executable).parent / "pruner"
    done = subprocess.run(
        [script, "status", flights, "--output", "json"], capture_output=True, check=True, timeout=PATIENCE
    )
    assert json.loads(done.stdout)["slices"] == 4


def test_help_waits_for_no_heavy_import() -> None:
    code = (
        "import sys; from pruner.cli.app import app\n"
        "try: app(['plan', '--help'])\n"
        "except SystemExit as end: print(end.code, *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert "--where" in done.stdout
    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "0"
    assert not SLOW_IMPORTS & set(modules)


def test_query_without_duckdb_names_the_extra() -> None:
    code = "import sys; sys.modules['duckdb'] = None; from pruner.cli import main; main()"
    arguments = [sys.executable, "-c", code, "query", "SELECT 1"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: adapter 'duckdb' (pruner_duckdb of lake-pruner ")
    assert done.stderr.endswith("(in a checkout: pip install '.[duckdb]')\n")
    assert done.stderr.count("\n") == 1


def test_a_traceback_is_shown_only_on_request(run_process: Run, flights: Path) -> None:
    plain = run_process("plan", flights, "--where", "nothing = 1")
    asked = run_process("--traceback", "plan", flights, "--where", "nothing = 1")
    by_variable = run_process("plan", flights, "--where", "nothing = 1", env={"PRUNER_TRACEBACK": "1"})
    assert "Traceback" not in plain.err
    for shown in (asked, by_variable):
        assert shown.code == plain.code == 1
        assert shown.err.startswith("Traceback")
        assert shown.err.endswith(plain.err)


def test_the_unexpected_is_one_sentence_as_well() -> None:
    sentence, code = describe(ZeroDivisionError("division by zero"))
    assert (sentence, code) == (
        "unexpected ZeroDivisionError: division by zero (pruner --traceback … shows where)",
        1,
    )
    assert describe(MemoryError())[0].startswith("unexpected MemoryError (")


@pytest.mark.parametrize("rows", [1, 200_000])
def test_a_reader_that_goes_away_is_not_an_error(rows: int) -> None:
    query = f"SELECT range AS n FROM range({rows})"
    process = subprocess.Popen(command_line("query", query), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    complaints = process.stderr.read()
    process.stderr.close()
    assert process.wait(PATIENCE) == 1
    assert complaints == b""


def test_an_interrupt_ends_with_130(flights: Path, tmp_path: Path) -> None:
    place = tmp_path / "never-written"
    os.mkfifo(place)
    process = subprocess.Popen(
        command_line("plan", flights, "--where", f"@{place}"), stderr=subprocess.PIPE, text=True
    )
    # Opening for writing succeeds once the process waits in its read.
    with place.open("w", encoding="utf-8"):
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in complaints


def test_progress_is_shown_to_a_person_only(flights: Path, run_process: Run) -> None:
    piped = run_process("sql", f"CREATE INDEX stats ON '{flights}' (delay)")
    assert piped.err == ""
    shutil.rmtree(f"{flights}.pruner")
    watcher, terminal = pty.openpty()
    process = subprocess.Popen(
        command_line("sql", f"CREATE INDEX stats ON '{flights}' (delay)"),
        stdout=subprocess.PIPE,
        stderr=terminal,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(terminal)
    shown = _read_terminal(watcher)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"indexing" in shown
    assert out.startswith(b"index stats created")


def test_uninstall_asks_a_person(flights: Path, run_process: Run) -> None:
    assert run_process("sql", f"CREATE INDEX stats ON '{flights}' (delay)").code == 0
    for answer, code, stays in ((b"n\n", 1, True), (b"y\n", 0, False)):
        watcher, terminal = pty.openpty()
        process = subprocess.Popen(
            command_line("uninstall", flights), stdin=terminal, stdout=terminal, stderr=terminal
        )
        os.close(terminal)
        os.write(watcher, answer)
        shown = _read_terminal(watcher)
        assert process.wait(PATIENCE) == code, shown
        assert b"Delete all indexes in" in shown
        assert Path(f"{flights}.pruner").exists() is stays


def _read_terminal(watcher: int, seconds: float = PATIENCE) -> bytes:
    """Everything written to a terminal until its last user closes it."""
    shown = b""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([watcher], [], [], 1)
        if not ready:
            continue
        try:
            chunk = os.read(watcher, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(watcher)
    return shown


def test_the_service_serves_and_stops(flights: Path, tmp_path: Path) -> None:
    """`pruner serve` prints its address, answers there, and exits cleanly when it is told to stop."""
    (tmp_path / "pruner.toml").write_text(f'[tables.t]\nuri = "{flights}"\n')
    command = command_line("serve", "--port", "0")
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert service.stdout is not None
        url = re.search(r"http://[\d.:]+", service.stdout.readline())
        assert url is not None
        with urllib.request.urlopen(f"{url[0]}/v1/tables", timeout=PATIENCE) as answer:
            assert answer.read() == b'[{"name":"t","aliases":[]}]'
        service.send_signal(signal.SIGTERM)
        assert service.wait(PATIENCE) in (0, -signal.SIGTERM)
    finally:
        service.kill()
        service.communicate()


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path, flights: Path, run_process: Run) -> None:
    (tmp_path / "pruner.toml").write_text(f'[tables.t]\nuri = "{flights}"\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run_process("serve", "--port", str(port))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"error: cannot listen on 127.0.0.1:{port}: Address already in use")


def test_a_service_without_tables_or_beyond_this_machine_is_refused(
    tmp_path: Path, flights: Path, run_process: Run
) -> None:
    """One sentence, and nothing listens."""
    assert "no table to serve" in run_process("serve").err
    (tmp_path / "pruner.toml").write_text(f'[tables.t]\nuri = "{flights}"\n')
    refused = run_process("serve", "--host", "0.0.0.0")
    assert (refused.code, "PRUNER_SERVICE_TOKEN" in refused.err) == (1, True)


def test_the_shell_completes_commands_and_options(run_process: Run) -> None:
    """As Bash calls it after `--install-completion`."""
    asked = {"_PRUNER_COMPLETE": "complete_bash", "COMP_WORDS": "pruner co", "COMP_CWORD": "1"}
    assert run_process(env=asked).out.split() == ["count", "compact"]
    asked = {"_PRUNER_COMPLETE": "complete_bash", "COMP_WORDS": "pruner advise --s", "COMP_CWORD": "2"}
    assert run_process(env=asked).out.split() == ["--sql"]
