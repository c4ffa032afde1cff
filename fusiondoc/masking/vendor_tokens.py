"""The formats of services' tokens: the prefix of each, and the characters after it.

Only formats that no other text has: a prefix unique to the service and a long
random rest. Sources are the pages on which the services describe their tokens, many
of them for GitHub's secret scanning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class TokenForm(NamedTuple):
    """The form of a service's tokens: a prefix of ``prefixes``, then ``rest``, both
    in the service's case.

    A ``rest`` of capital and small letters needs a digit too: names in a program
    rarely have any.
    """

    service: str
    prefixes: tuple[str, ...]
    rest: str


_ANY = r"[A-Za-z0-9_-]"
_WORD = r"[A-Za-z0-9]"
_HEX = r"[a-f0-9]"

TOKEN_FORMS = (
    # Code, packages, builds
    TokenForm(
        "GitHub", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), rf"{_WORD}{{16,}}"
    ),
    TokenForm("GitHub", ("github_pat_",), r"[A-Za-z0-9_]{20,}"),
    TokenForm(
        "GitLab",
        (
            *(
                "glpat-",
                "gldt-",
                "glrt-",
                "glcbt-",
                "glptt-",
                "glft-",
                "glsoat-",
                "glimt-",
                "glagent-",
            ),
            *("gloas-", "glffct-"),
        ),
        r"[A-Za-z0-9_.-]{16,}",
    ),
    TokenForm("GitLab", ("GR1348941",), rf"{_ANY}{{20}}"),
    TokenForm("Bitbucket", ("ATBB",), rf"{_WORD}{{24,}}"),
    TokenForm("Atlassian", ("ATATT3x", "ATCTT3x"), r"[A-Za-z0-9_=+/-]{40,}"),
    TokenForm("npm", ("npm_",), rf"{_WORD}{{30,}}"),
    TokenForm("PyPI", ("pypi-",), rf"{_ANY}{{40,}}"),
    TokenForm("RubyGems", ("rubygems_",), rf"{_HEX}{{40,}}"),
    TokenForm("NuGet", ("oy2",), r"[a-z0-9]{43}"),
    TokenForm("Docker", ("dckr_pat_", "dckr_oat_"), rf"{_ANY}{{20,}}"),
    TokenForm("JFrog", ("AKCp", "cmVmdGtuOj"), rf"{_WORD}{{40,}}"),
    TokenForm("CircleCI", ("CCIPAT_", "CCIPRJ_"), r"[A-Za-z0-9_]{30,}"),
    TokenForm("Buildkite", ("bkua_", "bkat_"), rf"{_HEX}{{30,}}"),
    TokenForm("SonarQube", ("sqp_", "squ_", "sqa_"), rf"{_HEX}{{30,}}"),
    TokenForm("Postman", ("PMAK-",), rf"{_HEX}{{20,}}-{_HEX}{{30,}}"),
    TokenForm("Linear", ("lin_api_", "lin_oauth_"), rf"{_WORD}{{30,}}"),
    TokenForm("Notion", ("ntn_",), rf"{_WORD}{{40,}}"),
    TokenForm("Figma", ("figd_",), rf"{_ANY}{{30,}}"),
    TokenForm("Airtable", ("pat",), rf"{_WORD}{{14}}\.{_HEX}{{64}}"),
    TokenForm("Typeform", ("tfp_",), r"[A-Za-z0-9_=.-]{40,}"),
    # Clouds
    TokenForm("AWS", ("AKIA", "ASIA", "ABIA", "ACCA"), r"[A-Z0-9]{16}"),
    TokenForm("Google", ("AIza",), rf"{_ANY}{{30,}}"),
    TokenForm("Google", ("ya29.",), rf"{_ANY}{{20,}}"),
    TokenForm("Google", ("GOCSPX-",), rf"{_ANY}{{20,}}"),
    TokenForm("Google", ("1//0",), rf"{_ANY}{{30,}}"),
    TokenForm("DigitalOcean", ("dop_v1_", "doo_v1_", "dor_v1_"), rf"{_HEX}{{40,}}"),
    TokenForm("Alibaba Cloud", ("LTAI",), rf"{_WORD}{{16,24}}"),
    TokenForm("Tencent Cloud", ("AKID",), rf"{_WORD}{{32}}"),
    TokenForm("Heroku", ("HRKU-",), rf"{_ANY}{{30,}}"),
    TokenForm("Netlify", ("nfp_",), rf"{_WORD}{{30,}}"),
    TokenForm("Render", ("rnd_",), rf"{_WORD}{{24,}}"),
    TokenForm(
        "Fly.io", ("fo1_", "fm1_", "fm2_", "fm1r_"), r"[A-Za-z0-9_=+/-]{30,}"
    ),
    TokenForm("Supabase", ("sbp_", "sb_secret_"), rf"{_ANY}{{20,}}"),
    TokenForm(
        "PlanetScale",
        ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"),
        r"[A-Za-z0-9_=.-]{30,}",
    ),
    TokenForm("Scaleway", ("SCW",), r"[A-Z0-9]{17}"),
    TokenForm("MongoDB", ("mdb_sa_sk_",), rf"{_ANY}{{30,}}"),
    # Infrastructure
    TokenForm("HashiCorp Vault", ("hvs.", "hvb.", "hvr."), rf"{_ANY}{{20,}}"),
    TokenForm(
        "Databricks", ("dapi", "dose", "dkea"), rf"{_HEX}{{32}}(?:-\d{{1,2}})?"
    ),
    TokenForm(
        "Doppler", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa."), r"[A-Za-z0-9_.-]{30,}"
    ),
    TokenForm("Pulumi", ("pul-",), rf"{_HEX}{{40}}"),
    TokenForm("Tailscale", ("tskey-",), rf"{_ANY}{{16,}}"),
    TokenForm("1Password", ("ops_eyJ",), rf"{_ANY}{{40,}}=*"),
    TokenForm("age", ("AGE-SECRET-KEY-1",), r"[A-Z0-9]{50,}"),
    TokenForm("OpenShift", ("sha256~",), rf"{_ANY}{{40,}}"),
    # Watching
    TokenForm("Grafana", ("glc_", "glsa_"), r"[A-Za-z0-9_+/=-]{30,}"),
    TokenForm(
        "New Relic", ("NRAK-", "NRJS-", "NRIQ-", "NRRA-"), rf"{_WORD}{{19,}}"
    ),
    TokenForm("Sentry", ("sntrys_", "sntryu_"), r"[A-Za-z0-9_=+/-]{40,}"),
    TokenForm("Dynatrace", ("dt0c01.", "dt0s01."), r"[A-Z0-9]{24}\.[A-Z0-9]{60,}"),
    TokenForm("Honeycomb", ("hcaik_", "hcbik_", "hcamk_"), r"[a-z0-9]{30,}"),
    # Models and data
    TokenForm("Hugging Face", ("api_org_",), rf"{_WORD}{{30,}}"),
    TokenForm(
        "OpenAI, Anthropic, OpenRouter, DeepSeek", ("sk-",), rf"{_ANY}{{16,}}"
    ),
    TokenForm("Groq", ("gsk_",), rf"{_WORD}{{20,}}"),
    TokenForm("Replicate", ("r8_",), rf"{_WORD}{{30,}}"),
    TokenForm("Perplexity", ("pplx-",), rf"{_WORD}{{30,}}"),
    TokenForm("xAI", ("xai-",), rf"{_WORD}{{40,}}"),
    TokenForm("Fireworks", ("fw_",), rf"{_WORD}{{22,}}"),
    TokenForm("Together", ("tgp_v1_",), rf"{_ANY}{{30,}}"),
    TokenForm("NVIDIA", ("nvapi-",), rf"{_ANY}{{40,}}"),
    TokenForm("LangSmith", ("lsv2_pt_", "lsv2_sk_"), r"[a-f0-9_]{30,}"),
    TokenForm("Pinecone", ("pcsk_",), r"[A-Za-z0-9_]{30,}"),
    TokenForm("Tavily", ("tvly-",), rf"{_ANY}{{20,}}"),
    TokenForm("Jina", ("jina_",), rf"{_ANY}{{40,}}"),
    TokenForm("RunPod", ("rpa_",), r"[A-Z0-9]{30,}[a-z0-9]*"),
    TokenForm("Weights & Biases", ("wandb_v1_",), rf"{_ANY}{{30,}}"),
    TokenForm("Anyscale", ("esecret_", "aph0_"), rf"{_ANY}{{20,}}"),
    TokenForm("Prefect", ("pnu_", "pnb_"), rf"{_WORD}{{30,}}"),
    # Messages, mail
    TokenForm(
        "Slack",
        (
            "xoxa-",
            "xoxb-",
            "xoxc-",
            "xoxd-",
            "xoxe-",
            "xoxe.",
            "xoxo-",
            "xoxp-",
            "xoxr-",
            "xoxs-",
        ),
        r"[A-Za-z0-9.%-]{10,}",
    ),
    TokenForm("Slack", ("xapp-",), r"[A-Za-z0-9-]{20,}"),
    TokenForm("SendGrid", ("SG.",), rf"{_ANY}{{16,}}\.{_ANY}{{16,}}"),
    TokenForm("Brevo", ("xkeysib-", "xsmtpsib-"), rf"{_HEX}{{40,}}-{_WORD}{{8,}}"),
    TokenForm("Mailgun", ("key-",), rf"{_HEX}{{32}}"),
    TokenForm("Twilio", ("SK",), rf"{_HEX}{{32}}"),
    # Payments, shops
    TokenForm(
        "Stripe",
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_"),
        rf"{_WORD}{{16,}}",
    ),
    TokenForm("Stripe", ("whsec_",), r"[A-Za-z0-9+/=]{24,}"),
    TokenForm("Square", ("sq0atp-", "sq0csp-", "sq0idp-"), rf"{_ANY}{{20,}}"),
    TokenForm(
        "Shopify", ("shpat_", "shpca_", "shppa_", "shpss_"), r"[A-Fa-f0-9]{30,}"
    ),
    TokenForm("PayPal", ("access_token$",), r"\w+\$[a-z0-9]{10,}\$[a-f0-9]{30,}"),
    TokenForm("Shippo", ("shippo_live_", "shippo_test_"), rf"{_HEX}{{40}}"),
    TokenForm("EasyPost", ("EZAK", "EZTK"), rf"{_WORD}{{50,}}"),
)


def services() -> tuple[str, ...]:
    """Services whose tokens are recognised by their form, in alphabetical order."""
    return tuple(sorted({form.service for form in TOKEN_FORMS}, key=str.lower))


def patterns() -> Iterator[tuple[tuple[str, ...], str]]:
    """Hints (in lower case) and the pattern of each form. A token does not begin
    inside a word."""
    for form in TOKEN_FORMS:
        parts = []
        for prefix in form.prefixes:
            parts.append(prefix.replace(".", r"\.").replace("$", r"\$"))
        begins = "|".join(parts)
        yield (
            tuple(prefix.lower() for prefix in form.prefixes),
            rf"(?<![A-Za-z0-9_])(?:{begins})(?:{form.rest})",
        )
