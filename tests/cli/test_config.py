"""Configuration files: where they are found, what they may contain, and how errors in them are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.cli.commands import known_options
from fmha_cli.cli.config import config_files, layers_of_file, project_file
from fmha_cli.cli.invoke import merge
from fmha_cli.cli.options import FILL, FORMATS, PROBLEM
from fmha_cli.domain.errors import UsageError

OPTIONS = (*PROBLEM, *FORMATS.values(), FILL)
KNOWN = {"run": [o.name for o in OPTIONS], "bench": ["cache", "seqlen"]}


def read(folder: Path, text: str) -> dict[str, object]:
    path = folder / "fmha.toml"
    path.write_text(text)
    return {key: value.value for key, value in merge(layers_of_file(path, "run", OPTIONS, KNOWN)).values.items()}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('seqlen = 4096\ndtype = "bf16"', {"seqlen": "4096", "dtype": "bf16"}),
        ('kv-heads = "2"', {"kv_heads": "2"}),
        ("seqlen = [512, 1024]", {"seqlen": "512,1024"}),
        ('mask = ["none", "causal"]', {"mask": ("none", "causal")}),
        ('mask = "causal"', {"mask": ("causal",)}),
        ("softcap = 30.5", {"softcap": "30.5"}),
        ("lse = true\ncausal = false", {"lse": True, "causal": False}),
        ("json = true", {"json": True}),
        ("seqlen = 1\n[run]\nseqlen = 2", {"seqlen": "2"}),
        ("seqlen = 1\n[bench]\nseqlen = 2", {"seqlen": "1"}),
        ('[bench]\ncache = "cold"', {}),
        ('cache = "cold"', {}),
    ],
)
def test_values(tmp_path: Path, text: str, values: dict[str, object]) -> None:
    assert read(tmp_path, text) == values


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("seqlne = 1", "C002", "seqlen"),
        ("kv_heads = 2", "C002", "kv-heads"),
        ("[runn]\nseqlen = 1", "C002", "run"),
        ("[bench]\nlse = true", "C002", "lse"),
        ("seqlen = ", "C001", ""),
        ("seqlen = true", "C003", ""),
        ("lse = 1", "C003", ""),
        ("seqlen = []", "C003", ""),
        ("seqlen = 1979-05-27", "C003", ""),
        ("seqlen = [true]", "C003", ""),
    ],
)
def test_mistakes_name_the_file_and_what_is_near(tmp_path: Path, text: str, code: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    error = caught.value
    assert error.code == code
    assert str(tmp_path / "fmha.toml") in error.what
    assert said in f"{error.what} {error.help}"


def test_the_project_file_is_searched_upward(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "fmha.toml").touch()
    assert project_file(deep) == tmp_path / "fmha.toml"
    (deep / "fmha.toml").touch()
    assert project_file(deep) == deep / "fmha.toml"


def test_project_goes_before_user(home: Path) -> None:
    user = home / "config" / "fmha" / "fmha.toml"
    user.parent.mkdir()
    user.touch()
    assert config_files(Path.cwd()) == (user,)
    Path("fmha.toml").touch()
    assert config_files(Path.cwd()) == (Path.cwd() / "fmha.toml", user)
    assert config_files(user.parent) == (user,)


@pytest.mark.promise("Configuration files and outputs are as the pages show them.")
def test_the_documented_example_holds(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "use-in-ci.md"
    block = page.read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    path = tmp_path / "fmha.toml"
    path.write_text(block)
    layers = layers_of_file(path, "bench", OPTIONS, known_options())
    assert merge(layers).text("dtype") == "bf16"
    assert merge(layers).text("heads") == "8,16"
