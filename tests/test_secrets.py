"""Secrets are masked in captures, reports and messages; what torch prints is left
as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run
from conftest import FIXTURES
from secret_forms import HARMLESS, Form, all_forms

from fusiondoc.captures.capture import REQUEST, Capture, write_json
from fusiondoc.captures.request import KeptRequest, KeptTarget
from fusiondoc.captures.trust import request_again, sign
from fusiondoc.errors import UsageError
from fusiondoc.masking import (
    MASK,
    mask,
    masked,
    masked_arguments,
    masked_in,
    masked_variables,
)
from fusiondoc.model.reasons import InPlace
from fusiondoc.model.source import Options
from fusiondoc.parsers.lines.log_files import LogInput, read_chunks
from fusiondoc.reports import REPORT_FORMATS, render_report
from fusiondoc.workflows.load import report_from

HF = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz12345678"
"""No token of anybody; put together so that no scanner finds it here either."""

SECRET_TEXTS = [
    ("--token=abc", "--token=***"),
    ("run.py --api-key X123 y", "run.py --api-key *** y"),
    ("password=hunter2", "password=***"),
    ("HF_TOKEN=abc", "HF_TOKEN=***"),
    ("{'api_key': 'abcd', 'n': 1}", "{'api_key': '***', 'n': 1}"),
    ("Authorization: Bearer abcdef", "Authorization: Bearer ***"),
    ("-H 'Authorization: token abc'", "-H 'Authorization: token ***'"),
    ("clone https://user:p@ss@host/x", "clone https://***@host/x"),
    ("login with " + HF, "login with ***"),
    ("ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a", "***"),
    ("github_pat_" + "11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz", "***"),
    ("id " + "AKIA" + "IOSFODNN7EXAMPLE", "id ***"),
    ("sk-" + "proj-abcd1234efgh5678ijkl", "***"),
    ("xoxb" + "-1234567890-abcdef", "***"),
    ("eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0.abc", "***"),
    (
        "https://b/x?X-Amz-Signature=abcdef1234567890&a=1",
        "https://b/x?X-Amz-Signature=***&a=1",
    ),
    (
        "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/=\nabc\n-----END RSA PRIVATE KEY-----\nb",
        "a\n-----BEGIN RSA PRIVATE KEY-----\n***\n***\n-----END RSA PRIVATE KEY-----\nb",
    ),
]


@pytest.mark.parametrize(("text", "made"), SECRET_TEXTS)
def test_secrets_in_text_are_masked_once(text: str, made: str) -> None:
    assert mask(text) == (made, 1)
    assert mask(made) == (made, 0)
    long = "x" * 2000 + "\n" + text + "\n" + "y" * 2000
    assert masked(long) == long.replace(text, made)


@pytest.mark.parametrize(
    "text",
    [
        "%token.1 : Float(8, 128, strides=[128, 1], requires_grad=0, device=cuda:0)",
        "%password : Tensor = aten::add(%secret, %key, %6) # /home/u/token_mixer.py:12:8",
        "def forward(self, token: Tensor, password: str, secret: Optional[int] = None)",
        "pad_token=<pad> mask_token='[MASK]' token_type_ids: 0 tokens=512 max_new_token=4",
        "secret = os.environ['X']; api_key = getpass('key: ')",
        "_ZN5torch3jit5fuser4cuda17CudaFusionManager15getOrCreateEPKeyE",
        "hf_DistilBertForSequenceClassification hf_T5ForConditionalGeneration",
        "kernel sha256:"
        + "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "key=0123456789abcdef0123 task-12345678901234567890",
        "float32[8,128,1024]:grad https://pytorch.org/docs a@b.c:/x",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == (text, 0)


def test_real_logs_hold_none() -> None:
    for path in sorted(FIXTURES.glob("**/*.log*"))[::4]:
        for chunk in read_chunks(LogInput(path.name, path)):
            assert mask(chunk.decode("utf-8", "replace"))[1] == 0, path


FORMS = all_forms()
BEFORE = (
    "",
    "[rank1]: ",
    "2026-01-01 10:00:00,123 INFO train: ",
    "> ",
    "\x1b[32mINFO\x1b[0m ",
    '{"message": "',
)


def kept(form: Form, before: str = "", around: str = "") -> bool:
    made = masked(around + before + form.text.replace("\n", "\n" + before) + around)
    return any(secret in made for secret in form.secrets)


def test_forms_of_secrets_are_masked() -> None:
    """Of all that a reader would call a secret at least 95 %, also those that only
    the meaning tells."""
    assert len(FORMS) >= 300 and len({form.kind for form in FORMS}) >= 15
    left = [form.text for form in FORMS if kept(form)]
    assert len(left) <= 0.02 * len(FORMS), left
    assert [form.text for form in FORMS if not form.hard and kept(form)] == []


@pytest.mark.parametrize("before", BEFORE[1:])
def test_forms_of_secrets_are_masked_behind_a_prefix_of_the_log(
    before: str,
) -> None:
    left = [form.text for form in FORMS if not form.hard and kept(form, before)]
    assert len(left) <= 0.05 * len(FORMS), left


def test_a_long_text_loses_the_same_secrets() -> None:
    """Which rules apply is decided by the words of a long text, and where by their
    hints."""
    around = "\n" + "graph(%x.1 : Float(8, 128)): # model.py:12:8\n" * 100
    assert [
        form.text for form in FORMS if not form.hard and kept(form, around=around)
    ] == []
    text = "\n".join(
        form.text
        for form in FORMS
        if not form.hard and form.kind in ("name", "token", "URL")
    )
    assert not [
        form.text
        for form in FORMS
        if form.kind == "token"
        and not form.hard
        and form.secrets[0] in masked(text)
    ]


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_stays(text: str) -> None:
    around = "\n" + "x = 1\n" * 500
    assert mask(text) == (text, 0)
    assert mask(around + text + around) == (around + text + around, 0)


def test_a_line_keeps_its_colours_unless_a_secret_stands_among_them() -> None:
    text = "\x1b[31merror\x1b[0m\n\x1b[1mpassword\x1b[0m=hunter2\n\x1b[32mok\x1b[0m"
    assert mask(text) == (
        "\x1b[31merror\x1b[0m\npassword=***\n\x1b[32mok\x1b[0m",
        1,
    )


def test_lines_of_others_between_those_of_a_key_stay() -> None:
    form = next(one for one in FORMS if "step 3 loss" in one.text)
    made = masked(form.text)
    assert [line for line in made.split("\n") if "step" in line] == [
        line for line in form.text.split("\n") if "step" in line
    ]


def test_arguments_and_variables_by_name() -> None:
    words = (
        "a.py",
        "--token",
        "abc",
        "--max-tokens",
        "5",
        "PASSWORD=x",
        "wandb.api_key=y",
        "--pad-token",
        "<p>",
    )
    made = (
        "a.py",
        "--token",
        MASK,
        "--max-tokens",
        "5",
        f"PASSWORD={MASK}",
        f"wandb.api_key={MASK}",
        *words[-2:],
    )
    assert masked_arguments(words) == made
    assert masked_arguments(("--secret", "--verbose", "--password")) == (
        "--secret",
        "--verbose",
        "--password",
    )
    variables = {
        "HF_TOKEN": "x",
        "PWD": "/home/x",
        "DEPLOY_KEY": "Ab3dEf6hIj9kLm2nOp5q",
        "KEY": "short",
    }
    assert masked_variables(variables) == {
        **variables,
        "HF_TOKEN": MASK,
        "DEPLOY_KEY": MASK,
    }
    assert masked_in({"db": {"password": "x"}, "n": 1}) == {
        "db": {"password": MASK},
        "n": 1,
    }


@pytest.mark.parametrize(
    "bad",
    [
        *(
            'password="',
            "-----BEGIN PRIVATE KEY-----",
            "://a:",
            "eyJ",
            "--x-",
            "token: '",
            'password=\\\\"',
            "pass: ",
        ),
        *(
            "machine a login b ",
            "curl -u ",
            "<password>",
            '"name": "token", ',
            "ghp_",
            "password\\n",
            "secret ",
            "\x1b]8;",
        ),
        *(
            "-----BEGIN PRIVATE KEY-----\n",
            "cookie: a=",
            "Basic YTpi",
            "passphrase: a ",
            "use a1a1a1 as ",
            "token: |\n",
        ),
    ],
)
def test_time_grows_with_the_text(bad: str) -> None:
    """Would take minutes if a pattern went back over what it has read."""
    masked(bad * 20_000)


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / ".fusiondoc" / "20260101-000000-m"
    folder.mkdir(parents=True)
    (tmp_path / "m.py").touch()
    kept = KeptRequest(
        schema="fusiondoc.capture/1",
        command=(
            "fusiondoc",
            "diagnose",
            "--script",
            "m.py",
            "--",
            "--token",
            "abc-def",
        ),
        cwd=str(tmp_path),
        target=KeptTarget("m.py", "file", str(tmp_path / "m.py")),
        options=Options(
            fuser="nnc", script=True, script_args=("--token", "abc-def")
        ),
        environment_user={"PYTORCH_JIT_LOG_LEVEL": HF},
        environment_set={"MY_API_KEY": "abc-def"},
    )
    write_json(folder / REQUEST, kept.without_secrets().as_json())
    sign(folder, REQUEST)
    (folder / "log").write_text(
        f"[DUMP x] nothing\nRuntimeError: {HF}\nTraceback: password=abc-def\n"
    )
    record = {
        "record": "error",
        "stage": "run",
        "type": "RuntimeError",
        "message": f"no {HF}",
        "traceback": "x",
    }
    (folder / "records.jsonl").write_text(json.dumps(record) + "\n")
    return folder


def test_a_request_keeps_no_secret_and_says_what_it_lacks(capture: Path) -> None:
    text = (capture / REQUEST).read_text()
    assert "abc-def" not in text and HF not in text
    assert Capture(capture).request.masked == (
        "command",
        "environment_set",
        "environment_user",
        "script_args",
    )


def test_what_was_masked_is_not_run_again(capture: Path) -> None:
    with pytest.raises(UsageError, match="secret among its arguments") as refused:
        request_again(Capture(capture), ("nnc_ir",))
    assert "diagnose --script m.py --dump nnc_ir -- ARGS" in (
        refused.value.hint or ""
    )


@pytest.mark.parametrize("form", REPORT_FORMATS)
def test_no_format_shows_one(capture: Path, form: str) -> None:
    shown = render_report(report_from([str(capture)]), form)
    assert "abc-def" not in shown and HF not in shown


def test_captures_show_and_the_log_stays(
    capture: Path, fusiondoc: Run, tmp_path: Path
) -> None:
    for form in ("text", "json"):
        shown = fusiondoc("captures", "show", "--format", form, cwd=tmp_path).stdout
        assert "abc-def" not in shown and HF not in shown and MASK in shown
    assert HF in (capture / "log").read_text()


def test_a_text_equal_to_the_name_of_a_class_is_masked_before_it() -> None:
    """Masked texts are cached: a model named ``in_place`` gave its own string for
    the kind of a reason."""
    name = "".join(["in_", "place"])
    assert masked(name) == name
    reason = InPlace(plain="aten::add", plain_fusible=True, fuser="nvfuser")
    assert masked_in([name, reason]) == [name, reason]
