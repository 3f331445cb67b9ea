"""The demonstration prints the answer and writes a picture."""

from typer.testing import CliRunner

from condcs.cli.app import app


def test_demo(tmp_path):
    picture = tmp_path / "demo.png"
    result = CliRunner().invoke(app, ["demo", "--rows", "200", "--out", str(picture)])
    assert result.exit_code == 0, result.output
    assert "is p(y|x) the same?" in result.output
    relation = next(line for line in result.output.splitlines() if line.startswith("relation"))
    with_change, without = (float(part.split()[0]) for part in relation.split("p = ")[1:])
    assert with_change <= 0.01 < without
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("condcs 0.")
