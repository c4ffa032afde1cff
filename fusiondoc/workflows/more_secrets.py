"""Secrets that the rules of detect-secrets know (``pip install
'fusiondoc[secrets]'``) beside our own.

Only its detectors of one service's token format are used. Those for random text,
for words such as "password" and for addresses match too much in a log of torch;
fusiondoc's own rules look for such words.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from fusiondoc.masking import MASK
from fusiondoc.workflows.names_replaced import MoreSecrets

PACKAGE = "detect_secrets"
EXTRA = "secrets"

DETECTORS = (
    ("artifactory", "ArtifactoryDetector"),
    ("aws", "AWSKeyDetector"),
    ("azure_storage_key", "AzureStorageKeyDetector"),
    ("basic_auth", "BasicAuthDetector"),
    ("cloudant", "CloudantDetector"),
    ("discord", "DiscordBotTokenDetector"),
    ("github_token", "GitHubTokenDetector"),
    ("gitlab_token", "GitLabTokenDetector"),
    ("ibm_cloud_iam", "IbmCloudIamDetector"),
    ("ibm_cos_hmac", "IbmCosHmacDetector"),
    ("jwt", "JwtTokenDetector"),
    ("mailchimp", "MailchimpDetector"),
    ("npm", "NpmDetector"),
    ("openai", "OpenAIDetector"),
    ("pypi_token", "PypiTokenDetector"),
    ("sendgrid", "SendGridDetector"),
    ("slack", "SlackDetector"),
    ("softlayer", "SoftlayerDetector"),
    ("square_oauth", "SquareOAuthDetector"),
    ("stripe", "StripeDetector"),
    ("telegram_token", "TelegramBotTokenDetector"),
    ("twilio", "TwilioKeyDetector"),
)
"""Module and class, of detect-secrets 1.5.0; one that a version does not have is
left out."""


def is_installed() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


def version() -> str:
    """The version of detect-secrets, as text."""
    return str(
        getattr(importlib.import_module(PACKAGE + ".__version__"), "VERSION", "")
    )


@cache
def _detectors() -> tuple[Any, ...]:
    found = []
    for module, name in DETECTORS:
        try:
            found.append(
                getattr(
                    importlib.import_module(f"{PACKAGE}.plugins.{module}"), name
                )()
            )
        except (ImportError, AttributeError):
            continue
    return tuple(found)


def kinds() -> tuple[str, ...]:
    """Return the kinds of secrets that its rules look for; none if it is not
    installed."""
    if is_installed():
        return tuple(str(detector.secret_type) for detector in _detectors())
    return ()


def finder() -> MoreSecrets | None:
    """Return a function that masks the secrets found by its rules; None if it is
    not installed."""
    if not is_installed():
        return None
    patterns = []
    for detector in _detectors():
        patterns.extend(detector.denylist)
    return lambda text: _masked(text, patterns)


def _masked(text: str, patterns: Sequence[re.Pattern[str]]) -> tuple[str, int]:
    """Mask the secrets in a text. Each different line is searched once: a log
    repeats most of its lines."""
    lines = []
    for line in set(text.split("\n")):
        if _MAY_BE_ONE.search(line):
            lines.append(line)
    number = 0
    for secret in sorted(
        _found("\n".join(lines), patterns),
        key=lambda secret: (-len(secret), secret),
    ):
        count = text.count(secret)
        text = text.replace(secret, MASK)
        number += count
    return text, number


_MAY_BE_ONE = re.compile(
    r"(?<![A-Za-z0-9_-])(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{10,}|://[^\s/]*@"
)
"""A part of every secret matched by these rules: a digit in a word of at least 10
characters, or a password in an address."""


def _found(text: str, patterns: Sequence[re.Pattern[str]]) -> set[str]:
    """Return the matched secrets: the last group of a pattern, or the whole match
    if it has no group."""
    secrets = set()
    for pattern in patterns:
        for found in pattern.finditer(text):
            groups = [group for group in found.groups() if group]
            secret = (groups[-1] if groups else found.group()).strip(" \t\"'=:")
            if (
                len(secret) >= _SHORTEST
                and MASK not in secret
                and re.search("[0-9]", secret)
            ):
                secrets.add(secret)
    return secrets


_SHORTEST = 8
