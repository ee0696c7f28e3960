"""The command line, run in this process; only scaffolds need processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from grilly.cli import app, main

COMMANDS = ["doctor", "ops", "explain", "conformance", "bench", "demo", "new"]


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_help_names_every_command():
    text = call("--help")
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    assert len(call(command, "--help").split()) > 10


def test_doctor_shows_plugins_devices_and_settings(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("GRILLY_DISABLE", "onee")
    text = call("doctor")
    assert "grilly-backend-cpu 0.1.0" in text
    assert "loaded" in text
    assert "cpu:0" in text
    assert "GRILLY_DISABLE" in text
    assert "'onee' in GRILLY_PLUGINS or GRILLY_DISABLE matches nothing" in text
    assert "cpu: 0 of " in text


def test_doctor_shows_a_broken_plugin_and_strict_fails(site, monkeypatch):
    """PLG-02: two failures are listed with project, version and traceback, and nothing stops the program."""
    from grilly_core.plugins import loader

    monkeypatch.setenv("COLUMNS", "200")
    site.module("fake_bad", "import nmupy")
    site.dist("fake-bad", {"grilly.ops.v1": {"bad": "fake_bad"}}, version="3.1")
    site.dist("fake-ghost", {"grilly.ops.v1": {"ghost": "no_such_module"}})
    fake = site.loader()
    for name in ("load_all", "index", "statuses"):
        monkeypatch.setattr(loader, name, getattr(fake, name))
    result = CliRunner().invoke(app, ["doctor", "--verbose", "--strict"])
    assert result.exit_code == 1
    for part in ("fake-bad 3.1", "fake-ghost 1.0", "broken", "Traceback", "No module named 'nmupy'"):
        assert part in result.output


def test_ops_is_a_table_of_ops_and_backends(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = call("ops", "exp")
    assert "expm1" in text
    assert "f32" in text
    assert "matmul" not in text


def test_ops_sees_fused_kernels_in_a_process_of_its_own():
    source = "import sys; sys.argv = ['grilly', 'ops', 'nn.softmax']; from grilly.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert "f32" in done.stdout


def test_explain_tells_the_decision():
    assert "exp" in call("explain", "exp", "--device", "cpu")


@pytest.mark.parametrize("name", ["Cube", "class", "1x", "a-b"])
def test_new_refuses_names_that_python_refuses(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["grilly", "new", "op", name, "--folder", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert "expected a lower-case Python name" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["op", "backend"])
def test_a_new_package_passes_its_own_test(kind, tmp_path):
    call("new", kind, "my_sample", "--folder", str(tmp_path))
    folder = tmp_path / "grilly_my_sample"
    assert 'name = "grilly-my-sample"' in (folder / "pyproject.toml").read_text()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", folder],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with pytest.raises(Exception, match="exists already"):
        call("new", kind, "my_sample", "--folder", str(tmp_path))


def test_demos_are_listed_called_with_their_arguments_and_a_broken_one_says_why(site, monkeypatch, capsys):
    from grilly_core.plugins import loader

    monkeypatch.setenv("COLUMNS", "200")
    site.module(
        "fake_demo",
        '"""Waves [that] move.\n\nMore."""\ngrilly_abi = 1\ndef main(arguments):\n    print(arguments)\n    return 3',
    )
    site.dist("fake-demo", {"grilly.demos.v1": {"waves": "fake_demo:main", "gone": "no_such_module:main"}})
    fake = site.loader()
    for name in ("demo_names", "load_demo"):
        monkeypatch.setattr(loader, name, getattr(fake, name))
    text = call("demo")
    assert "Waves [that] move." in text and "No module named 'no_such_module'" in text and "More." not in text
    result = CliRunner().invoke(app, ["demo", "waves", "--device", "cpu", "--help"])
    assert result.exit_code == 3 and "['--device', 'cpu', '--help']" in result.output
    for arguments, message in (
        (["--device", "cpu"], "name a demo before its options"),
        (["wave"], "Did you mean"),
    ):
        monkeypatch.setattr(sys, "argv", ["grilly", "demo", *arguments])
        with pytest.raises(SystemExit):
            main()
        assert message in capsys.readouterr().err


def test_conformance_of_an_op_that_is_not_there_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["grilly", "conformance", "--op", "softmx"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    error = " ".join(capsys.readouterr().err.split())
    assert error.startswith("grilly: ops: softmx: not declared") and "Did you mean" in error
