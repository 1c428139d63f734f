"""Masking: what looks like a key goes, what surrounds it stays (T7)."""

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.outputs.secrets import has_secret, mask, protect

BODY = "Ab1" * 12


@pytest.mark.parametrize(
    "prefix",
    ["sk-", "sk-proj-", "sk-ant-api03-", "xai-", "pplx-", "nvapi-", "gsk_", "hf_", "ghp_", "lsv2_pt_", "r8_", "AIza"],
)
def test_key_of_a_known_provider_is_masked_in_the_middle_of_a_text(prefix):
    assert mask(f"it says {prefix}{BODY}, and more") == "it says ***, and more"
    assert has_secret(f"{prefix}{BODY}")


@pytest.mark.parametrize(
    "text, masked",
    [
        (f"Authorization: Bearer {BODY}", "Authorization: Bearer ***"),
        (f'{{"api_key": "{BODY}"}}', '{"api_key": "***"}'),
        (f"OPENAI_API_KEY={BODY}", "OPENAI_API_KEY=***"),
        ("https://me:hush@host/v1", "https://***@host/v1"),
        ("Incorrect API key provided: sk-proj-************wxyz.", "Incorrect API key provided: ***."),
        ("BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY", "BEGIN PRIVATE KEY-----***-----END PRIVATE KEY"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", "token ***"),
    ],
)  # fmt: skip
def test_secret_goes_and_what_gave_it_away_stays(text, masked):
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "a task-force-of-many-people-in-a-risk-averse-organisation",
        "sk-short",
        "api_key_env: MY_VARIABLE",
        "see http://localhost:11434/v1 and mail a@b.org",
        "the Bearer of bad news",
        "",
    ],
)
def test_ordinary_text_is_left_alone(text):
    assert mask(text) == text
    assert not has_secret(text)


def test_protected_value_is_masked_wherever_it_stands():
    value = secrets.token_hex(8)
    assert mask(value) == value
    protect(value)
    assert mask(f"<{value}{value}>") == "<******>"
    assert has_secret(value)


def test_protected_value_that_begins_with_another_leaves_nothing_over():
    short = secrets.token_hex(8)
    protect(short)
    protect(f"{short}-and-more")
    assert mask(f"{short}-and-more") == "***"


def test_placeholder_is_no_secret():
    protect("ollama")
    assert mask("ollama run") == "ollama run"


@given(st.text(), st.text())
def test_masking_twice_is_masking_once(before, after):
    once = mask(f"{before} sk-{BODY} {after}")
    assert mask(once) == once
    assert BODY not in once
