"""The rules by which secrets are found in free text: by the text before them, or by
their own form."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from fusiondoc.masking import private_keys, vendor_tokens
from fusiondoc.masking.secret_names import (
    KEYS,
    MASK,
    WORDS,
    is_secret,
    looks_like_words,
    looks_random,
    name_means_secret,
)

Judge = Callable[["re.Match[str]"], "str | None"]


@dataclass(frozen=True)
class SecretRule:
    """A pattern of secrets and the replacement of a match.

    Every text in which the pattern matches holds, in lower case, at least a single
    word of ``hints``; these have no spaces. ``put`` returns the replacement of a
    match; None leaves the match as it is.
    """

    hints: tuple[str, ...]
    pattern: str
    put: Judge
    more_lines: int = 0
    """Number of lines after the line with the hint that the pattern searches
    too."""
    private_keys: bool = False
    form: bool = False
    """Whether it finds long words by their own form."""
    finds: tuple[str, ...] = ()
    """Texts in its lines, if they are rarer than its hints."""
    only_with: str = ""
    """A pattern that must match in the lower-case words of a text for the rule to
    apply; for rules whose hints alone are common."""

    def may_be_in(self, words: str) -> bool:
        """True if it may match something in a text with these words."""
        return (
            not self.only_with
            or _compiled(self.only_with).search(words) is not None
        )

    def applied(self, text: str) -> tuple[str, int]:
        """Return the text with its secrets masked, and their number."""
        number = 0

        def put(found: re.Match[str]) -> str:
            nonlocal number
            made = self.put(found)
            if made is None or made == found.group():
                return found.group()
            number += 1
            return made

        return _compiled(self.pattern).sub(put, text), number


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern at its first use: most are never needed, and to compile all
    would take longer than a short report."""
    return re.compile(pattern)


# -- replacements of a match ---------------------------------------------------------------------------------


def _whole(found: re.Match[str]) -> str:
    return MASK


def _last_group(found: re.Match[str]) -> str | None:
    """Mask the last group, which is the secret."""
    start, end = found.span(found.lastindex or 0)
    if found.string.startswith(MASK, start):
        return None
    return (
        found.string[found.start() : start] + MASK + found.string[end : found.end()]
    )


def _last_group_with_a_digit(found: re.Match[str]) -> str | None:
    value = found.group(found.lastindex or 0)
    if re.search(r"[0-9!@#$%^&*]", value):
        return _last_group(found)
    return None


def _header(found: re.Match[str]) -> str | None:
    """Mask a header, but not ``authorization: required``, which is a sentence."""
    value = found.group(found.lastindex or 0)
    if (
        value.isalpha()
        and value.islower()
        and len(value) < 16
        and _has_no_scheme(found)
    ):
        return None
    return _last_group(found)


def _has_no_scheme(found: re.Match[str]) -> bool:
    return found.group(2).rstrip(" \"'").endswith((":", "=", ","))


def _last_group_if_random(found: re.Match[str]) -> str | None:
    if looks_random(found.group(found.lastindex or 0)):
        return _last_group(found)
    return None


def _last_group_if_mixed(found: re.Match[str]) -> str | None:
    if _may_be_token(found.group(found.lastindex or 0)):
        return _last_group(found)
    return None


def _words_to_the_end(found: re.Match[str]) -> str | None:
    """Mask several words, which are a passphrase. A single word is left to the rule
    that recognises code."""
    if len(found.group(2).split()) > 2:
        return _last_group(found)
    return None


def _basic(found: re.Match[str]) -> str | None:
    """Mask a user's name, a colon and a password, in base64."""
    value = found.group(found.lastindex or 0)
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (ValueError, binascii.Error):
        return None
    is_pair = (
        b":" in plain and plain.isascii() and plain.decode("ascii").isprintable()
    )
    if is_pair:
        return _last_group(found)
    return None


def _token(found: re.Match[str]) -> str | None:
    """Mask a text of a service's form, unless words follow the prefix."""
    prefix = re.match(r"[A-Za-z0-9]{1,12}[_.$/~-]+|[A-Za-z]{4}", found.group())
    rest = found.group()[prefix.end() if prefix else 0 :]
    if looks_like_words(rest):
        return None
    return MASK


def _hugging_face(found: re.Match[str]) -> str | None:
    """Mask random tokens, but not names of models
    (``hf_DistilBertForSequenceClassification``), which are words."""
    body = found.group()[3:]
    others = sum(not character.islower() for character in body)
    is_name = body[0].isupper() and others * 4 <= len(body)
    if is_name or (body.islower() and len(body) < 30 and body.isalpha()):
        return None
    return MASK


_OF_A_SERVICE = re.compile(
    r"(?i)(?:auth|access|refresh|bearer|session|security|api|hf|hub|git\w{2,3}|vault|private|device|bot|deploy|job"
    r"|registry|npm|pypi|csrf|xsrf|oauth|id|slack|wandb|service|account|user|client)[_-]?token\Z"
)
_BEFORE = re.compile(
    r"(?:\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[a-z]))?"
    rf"(?P<words>\b(?i:{KEYS})[ ])?(?P<part>[%$\w.-]*)\Z"
)
"""The first part of a name; the letter of an escaped line feed or quote before it
is not part of it."""
_CODE = re.compile(
    r"(?:[%$<{(\[]|[A-Za-z_][\w.]*[(\[]|(?:os|self|args|config|cfg|env|settings|opts?|options)\.)"
)
_PLACEHOLDER = re.compile(
    r"\$\{?[A-Za-z_]\w*\}?|\$\(.*|\{\{.*|<[^<>]*>|%\(?\w*\)?[srd]|\{[\w.!:]*\}|\[[A-Z_]+\]|\.\.\.|…|[%$]\w+"
)


def _assigned(found: re.Match[str]) -> str | None:
    """Mask ``name = value`` anywhere in a text."""
    name, value = found.group("name"), found.group("value")
    text = found.string
    before = _BEFORE.search(text[max(0, found.start() - 60) : found.start()])
    if before:
        whole = (before.group("words") or "") + before.group("part") + name
    else:
        whole = name
    quoted = bool(found.group("open"))
    if whole.startswith("%") or _is_code(name, value, quoted):
        return None
    if not _name_may_mean_secret(
        name.lower(), whole, value, found.group("between")
    ):
        return None
    if " " in whole and not (quoted or re.search("[0-9]", value)):
        return None  # the words of a sentence
    if not is_secret(whole, value):
        return None
    start, end = found.span("value")
    return text[found.start() : start] + MASK + text[end : found.end()]


def _name_may_mean_secret(word: str, whole: str, value: str, between: str) -> bool:
    """True if a name that ends in ``token``, ``key`` or ``pass``, which have many
    meanings, may mean a secret.

    Args:
        word: the end of the name, in small letters; ``whole``: the name.
        between: the text between name and value.
    """
    upper = whole.upper() == whole
    if word == "token":
        named = (
            whole.startswith("--")
            or upper
            or _OF_A_SERVICE.search(whole) is not None
        )
        return named or _may_be_token(value)
    if word.startswith("key"):
        named = name_means_secret(whole) or (upper and "_" in whole)
        return named or _is_mixed(value)
    if word == "pass":
        return name_means_secret(whole) or (upper and "=" in between)
    return True


def _is_code(name: str, value: str, quoted: bool) -> bool:
    """True for a name or call of a program, a type, a value of a graph or a
    placeholder: no literal."""
    if _PLACEHOLDER.fullmatch(value):
        return True
    if quoted:
        return False
    return _CODE.match(value) is not None or value.lower().endswith(name.lower())


def _is_mixed(value: str) -> bool:
    """True if digits, capital and small letters are mixed at random, unlike in the
    ``key`` of a cache or a table."""
    return looks_random(value) and not looks_like_words(re.sub("[0-9]", "", value))


def _may_be_token(value: str) -> bool:
    """As ``looks_random``, but also for shorter values."""
    if looks_random(value):
        return True
    digits, letters = (
        len(re.findall("[0-9]", value)),
        len(re.findall("[A-Za-z]", value)),
    )
    return (
        len(value) >= 10
        and digits >= 3
        and letters >= 3
        and re.fullmatch(r"[\w+/=-]+", value) is not None
    )


def _pair(found: re.Match[str]) -> str | None:
    """Mask a name and a value joined by something other than a sign."""
    name, value = found.group("name"), found.group("value")
    if _is_code(name, value, False) or not is_secret(name, value):
        return None
    if name.lower() == "token" and not _may_be_token(value):
        return None
    start, end = found.span("value")
    return (
        found.string[found.start() : start] + MASK + found.string[end : found.end()]
    )


def _listed(found: re.Match[str]) -> str | None:
    """Mask the second of two texts in a list, unless it is a name too."""
    value = found.group("value")
    is_option = found.group().lstrip("\"'").startswith("-")
    if is_option or re.search("[0-9]", value):
        return _pair(found)
    return None


# -- the rules ---------------------------------------------------------------------------------------------

_QUOTE = r"(?:\\{0,16}[\"'`]|\\{1,16}u002[27]|&quot;|&#3[49];)"
_IS = r"(?:===?|!=|:=|=>|->|<-|[=:]|%3[dDaA]|\\{1,16}u003[dD])"
_TYPE = r"(?::\s{0,4}(?:str|bytes|String|SecretStr|Optional\[str\]|str \| None)\s{0,4}(?==))?"
_NAMED = (
    r"(?P<name>pass(?:word|wd|phrase|code)?|pwd|secrets?|credentials?|token|key(?:[_-]?(?:id|data|base))?)"
    r"(?P<more>[_-]?(?:[0-9]{1,2}|value|plain))?"
)
"""The end of a name, by few words: to try all words at each position of a long line
would take long. The text before a match is examined afterwards."""
_VALUE = (
    r"(?P<open>(?:[bBfFrRuU]{1,2}(?=[\"']))?(?:(?P<plain>[\"'`])"
    r"|(?P<written>\\{1,16}[\"']|\\{1,16}u002[27]|&quot;|&#3[49];)))?"
    r"(?P<value>(?(plain)(?:\\.|(?!(?P=plain))[^\\\n]){1,4096}(?=(?P=plain))"
    r"|(?(written)(?:(?!(?P=written))[^\n]){1,4096}(?=(?P=written))"
    r"|[\"']?[^\s\"',;&\\]+(?:\\[^\s\"',;&nrt\\]+)*)))"
)
_EQUALS = rf"(?P<between>{_QUOTE}?\]?\s{{0,8}}{_TYPE}{_IS}\s{{0,8}})"

_SECRET_HINTS = (
    "passw",
    "passphrase",
    "passcode",
    "secret",
    "credential",
    "token",
    "key",
    "pwd",
    "pass",
)

_WEBHOOKS = (
    r"(?i)((?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/|hooks\.zapier\.com/hooks/catch/"
    r"|discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/|[\w.-]+\.webhook\.office\.com/webhookb2/"
    r"|outlook\.office(?:365)?\.com/webhook/|maker\.ifttt\.com/(?:use/|trigger/[\w-]+/(?:json/)?with/key/)"
    r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/|api\.telegram\.org/(?:file/)?bot"
    r"|[\w.-]+/hooks/(?=[a-z0-9]{26}\b)|events\.pagerduty\.com/integration/))([^\s\"'<>`)\\]+)"
)
_COMMANDS = (
    r"(?:\bsshpass\s+-p\s*|\bwandb\s+login\s+(?:--\S+\s+)*|\bredis-cli\b[^\n]{0,100}?\s-a\s+"
    r"|\bdocker\s+login\b[^\n]{0,200}?\s-p[ =]|\bmysql(?:dump|admin)?\b[^\n]{0,100}?\s-p(?=[^\s-])"
    r"|\bcurl\b[^\n]{0,300}?\s(?:-u|--user|--proxy-user)[ =]?[\"']?[^\s:\"']{1,80}:"
    r"|\bhttps?\b[^\n]{0,100}?\s-a\s+[^\s:]{1,80}:)[\"']?([^\s\"']+)"
)
_PROSE = (
    r"(?i)\b(?:pass ?word|pass ?phrase|pass ?code|pwd|pw"
    r"|(?:api|secret|access|private)[ -]?key|(?:api |access |auth )?token)"
    r"(?: for (?:[^\s:'\"]{1,40}|'[^'\n]{1,100}'|\"[^\"\n]{1,100}\"))?"
    r"(?:\s*(?:is|was|set to)\s*:?\s+|\s*:\s+)[\"'`]?([^\s\"'`,;]{5,})"
)

_BY_WHAT_STANDS_BEFORE = (
    SecretRule(
        (
            "authorization",
            "x-api-key",
            "x-auth-token",
            "apikey",
            "private-token",
            "x-vault-token",
        ),
        r"(?i)(\b(?:proxy-)?authorization|\bx-api-key|\bx-auth-token|\bapikey|\bprivate-token|\bx-vault-token)"
        r"((?:\\{0,16}[\"'])?\s{0,8}[:=,]\s{0,8}(?:b(?=[\"']))?(?:\\{0,16}[\"'])?"
        r"(?:(?:bearer|basic|token|digest|negotiate|apikey|api-key|key)\s+)?)([^\s\"',;\\]+)",
        _header,
    ),
    SecretRule(
        ("cookie",),
        r"(?i)(\b(?:set-)?cookie(?:\\{0,16}[\"'])?\s{0,8}[:=,]\s{0,8}(?:b(?=[\"']))?(?:\\{0,16}[\"'])?)((?=[^\s\"'\\]*=)[^\n\"'\\]+)",
        _last_group,
    ),
    SecretRule(
        ("bearer",), r"\b([Bb]earer\s{1,8})([A-Za-z0-9._~+/=-]{12,})", _last_group
    ),
    SecretRule(("basic",), r"\b([Bb]asic\s{1,8})([A-Za-z0-9+/=]{8,})", _basic),
    SecretRule(
        ("auth",),
        r"(?i)(\b_?auth[\"']?\s{0,8}[:=]\s{0,8}[\"']?)([A-Za-z0-9+/=]{8,})",
        _basic,
    ),
    SecretRule(
        ("://",),
        r"(://)([^\s/@:\"'<>]{0,256}:[^\s/\"'<>]{1,256})(?=@)",
        _last_group,
    ),
    SecretRule(("://",), r"(://)([A-Za-z0-9_-]{20,256})(?=@)", _last_group),
    SecretRule(
        ("sig", "credential", "key=", "token=", "code=", "session"),
        r"(?i)((?:[?&]|&amp;|\\u0026)(?:sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token)|access_token|"
        r"token|key|session(?:_?id)?)=)([^&\s\"'#\\]{8,})",
        _last_group,
    ),
    SecretRule(
        ("signature=", "session", "code="),
        r"(?i)(\b(?:signature|session[_-]?id|phpsessid|jsessionid|code)\s?[=:]\s?[\"']?)([A-Za-z0-9+/=_.~-]{16,})",
        _last_group_if_random,
    ),
    SecretRule(
        ("hooks", "webhook", "api.telegram.org", "ifttt", "pagerduty", "hook/"),
        _WEBHOOKS,
        _last_group,
    ),
    SecretRule(
        ("passw", "secret", "token", "key", "pass"),
        rf"(?i)([\"']?\b(?:name|key|header|property)[\"']?\s*[:=]\s*[\"']?[\w.-]{{0,60}}?(?P<name>{WORDS})[\"']?\s*,?\s*"
        r"(?:-\s*)?[\"']?value[\"']?\s*[:=]\s*[\"']?)(?P<value>[^\s\"',}<>]+)",
        _pair,
        more_lines=1,
    ),
    SecretRule(
        ("</",),
        rf"(?i)(<[\w:.-]{{0,60}}?(?P<name>{WORDS})(?:\s[^<>]{{0,200}})?>\s*)(?P<value>[^<>\s][^<>\n]{{0,512}}?)(?=\s*</)",
        _pair,
    ),
    SecretRule(
        ("passw", "secret", "token", "key"),
        rf"(?i)([\"'](?:--?)?[\w.-]{{0,60}}?(?P<name>{WORDS})[\"']\s*,\s*b?[\"'])"
        r"(?P<value>[^\"'\n]{1,512})(?=[\"'])",
        _listed,
    ),
    SecretRule(
        ("login", "machine"),
        r"(?i)(\b(?:machine\s+\S{1,100}|default)\s+(?:[^\s]{1,60}\s+){0,4}?login\s+\S{1,100}\s+"
        r"(?:[^\s]{1,60}\s+){0,4}?password\s+)(\S+)",
        _last_group,
        more_lines=3,
    ),
    SecretRule(
        ("passphrase",),
        r"(?i)(\bpassphrase[\"']?\s*[:=]\s+)([^\s\"'][^\"'\n]*)",
        _words_to_the_end,
    ),
    SecretRule(
        ("passw", "secret", "token", "key"),
        rf"(?i)((?P<name>{WORDS})\s?:\s*[|>][+-]?[ \t]*\n[ \t]*)(?P<value>[^\s\"']+)",
        _pair,
        more_lines=1,
        finds=(": |", ": >", ":|", ":>"),
    ),
    SecretRule(
        ("passw",),
        r"(?im)(^\s*[\w.-]{0,60}(?:password|passwd)\s+)(\S*[0-9!@#$%^&*]\S*)\s*$",
        _last_group,
    ),
    SecretRule(
        ("identified", "password"),
        r"(?i)(\b(?:identified\s+(?:with\s+\S+\s+)?by|password)\s+[\"'])([^\"'\n]{1,200})(?=[\"'])",
        _last_group,
    ),
    SecretRule(
        ("auth",),
        r"(?i)(\bauth[\"']?\s{0,8}[:=]\s{0,8}\(\s{0,8}[bfru]?[\"'][^\"'\n]{1,80}[\"']\s{0,8},\s{0,8}[bfru]?[\"'])"
        r"([^\"'\n]{1,512})(?=[\"'])",
        _last_group,
    ),
    SecretRule(
        ("passw", "passphrase", "secret", "key"),
        r"(?i)((?:password|passwd|passphrase|secret|(?:api|access|secret|private)_?key)\s{0,8}=\s{0,8}"
        r"(?![\w.]*(?:get|environ|input|prompt|ask|read|load))[a-z_][\w.]{0,60}\(\s{0,8}[bfru]?[\"'])"
        r"([^\"'\n]{4,512})(?=[\"'])",
        _last_group_with_a_digit,
    ),
    SecretRule(
        ("secretstr", "secretbytes"),
        r"(\bSecret(?:Str|Bytes)\(b?[\"'])([^\"'\n]+)(?=[\"'])",
        _last_group,
    ),
    SecretRule(
        ("token", "password", "secret", "key"),
        r"(\b(?:[A-Z0-9]{1,30}_){1,6}(?:TOKEN|PASSWORD|PASSWD|SECRET|KEY)\s{1,40})([^\s=:]{8,4096})",
        _last_group_if_mixed,
    ),
    SecretRule(
        ("sshpass", "redis-cli", "docker", "mysql", "curl", "http", "wandb"),
        _COMMANDS,
        _last_group,
    ),
    SecretRule(
        ("passw", "secret", "token", "key", "pass"),
        r"(?i)(\b(?:setenv|export|env|set|configure set|config(?: --\w+)? (?:set )?)\s+)"
        rf"[\w./:-]{{0,60}}?(?P<name>{WORDS})"
        r"\s+[\"']?(?P<value>[^\s\"'=:]+)",
        _pair,
        finds=("setenv ", "export ", "env ", "set ", "config "),
    ),
    SecretRule(
        ('"kty"',),
        r"(\"(?:d|p|q|dp|dq|qi|k)\"\s*:\s*\")([A-Za-z0-9_-]{16,})(?=\")",
        _last_group,
    ),
    SecretRule(_SECRET_HINTS, rf"(?i){_NAMED}{_EQUALS}{_VALUE}", _assigned),
    SecretRule(
        ("--",),
        rf"(?i)(?<![\w-])(?P<name>--?(?:[a-z0-9]{{1,30}}[_-]){{0,4}}(?:{WORDS}|key))"
        r"(?P<between>[ ]{1,8})(?P<open>[\"'])?(?P<value>[^\s\"'-][^\s\"']*)",
        _assigned,
    ),
    SecretRule(
        ("passw", "pass", "pwd", "pw", "key", "token"),
        _PROSE,
        _last_group_with_a_digit,
    ),
    SecretRule(
        ("password", "passphrase", "token"),
        r"(?i)(\b(?:use|with|enter|type|give)\s+[\"'`]?)(?=[^\s\"'`]*[0-9])([^\s\"'`]{6,100})"
        r"(?=[\"'`]?\s+(?:as|for)\s+(?:the\s|your\s|my\s)?(?:password|passphrase|(?:access |api )?token))",
        _last_group,
    ),
)


_BY_THEIR_FORM = (
    SecretRule(
        ("hf_",),
        r"(?<![A-Za-z0-9_])hf_[A-Za-z0-9]{16,}(?![A-Za-z0-9_])",
        _hugging_face,
        form=True,
    ),
    SecretRule(
        ("eyj",),
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        _whole,
    ),
    # A PEM key encoded once more in base64, as Kubernetes stores it;
    # LS0tLS1CRUdJTiBD is the start of a certificate.
    SecretRule(
        ("ls0tls1crudjti",), r"LS0tLS1CRUdJTi(?!BD)[A-Za-z0-9+/]{20,}={0,2}", _whole
    ),
    SecretRule(
        (":aa",), r"(?<![A-Za-z0-9_])[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}", _whole
    ),  # bots of Telegram
    SecretRule(
        (".",),
        r"(?<![\w.-])[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}(?![\w-])",
        _whole,
        form=True,
        only_with=r"(?<![\w.-])[mno][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])",
    ),
    SecretRule(
        ("q~",),
        r"(?<![\w~.-])[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![\w~-])",
        _whole,
    ),  # Entra ID
    SecretRule(
        ("-us",), r"(?<![\w-])[a-f0-9]{32}-us[0-9]{1,2}(?![\w-])", _whole
    ),  # Mailchimp
    SecretRule(
        (".atlasv1.",),
        r"(?<![\w.-])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}",
        _whole,
    ),  # Terraform
    *(
        SecretRule(
            hints,
            pattern,
            _token,
            form=True,
            only_with=pattern.lower() if len(min(hints, key=len)) < 5 else "",
        )
        for hints, pattern in vendor_tokens.patterns()
    ),
)


def _rules() -> Iterator[SecretRule]:
    yield SecretRule(private_keys.HINTS, "", _whole, private_keys=True)
    yield from _BY_WHAT_STANDS_BEFORE
    yield from _BY_THEIR_FORM


RULES = tuple(_rules())
"""All rules in the order in which they apply: text that a rule has masked is no
secret for later rules."""
