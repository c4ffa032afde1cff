"""Written forms of secrets, and text that holds none, for the tests of masking.

All values are made up, at run time and from a fixed seed, and no prefix of a
service stands beside a value, so that no scanner of secrets finds one in this file.
"""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from typing import NamedTuple

_RANDOM = random.Random(28)
LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


class Form(NamedTuple):
    """A text with secrets in it. ``hard``: nothing in the text but its meaning says
    that it is one."""

    kind: str
    text: str
    secrets: tuple[str, ...]
    hard: bool = False


def some(length: int, alphabet: str = LETTERS) -> str:
    """A made-up value: letters and digits, some of each."""
    while True:
        value = "".join(_RANDOM.choice(alphabet) for _ in range(length))
        if any(one.isdigit() for one in value) and any(
            one.isalpha() for one in value
        ):
            return value


NAMES = (
    *(
        "password",
        "passwd",
        "PASSWORD",
        "Passphrase",
        "pwd",
        "secret",
        "SECRET",
        "client_secret",
        "ClientSecret",
    ),
    *(
        "api_key",
        "apiKey",
        "API_KEY",
        "api-key",
        "ApiKey",
        "access_key",
        "AccessKey",
        "AccountKey",
        "EncryptionKey",
    ),
    *(
        "encryption_key",
        "signing_key",
        "SharedAccessKey",
        "aws_secret_access_key",
        "AWS_SECRET_ACCESS_KEY",
    ),
    *(
        "DB_PASS",
        "db_pass",
        "REDIS_PASS",
        "APP_PASS",
        "PGPASSWORD",
        "MYSQL_PWD",
        "SMTP_PASSWORD",
        "dbPassword",
    ),
    *(
        "HF_TOKEN",
        "WANDB_API_KEY",
        "auth_token",
        "accessToken",
        "refresh_token",
        "GITHUB_TOKEN",
        "NPM_TOKEN",
    ),
    *(
        "credentials",
        "private_key",
        "SECRET_KEY_BASE",
        "spring.datasource.password",
        "redis.password",
    ),
    *(
        "TF_VAR_db_password",
        "wandb.api_key",
        "jwt_secret",
        "webhook_secret",
        "MASTER_KEY",
        "subscription-key",
    ),
    *("X-Api-Key", "X-Vault-Token", "PRIVATE-TOKEN", "storage_key", "password2"),
)


def names() -> Iterator[Form]:
    for name in NAMES:
        value = some(14)
        yield Form(
            "name", f"INFO loading {name}={value} from the environment", (value,)
        )
    for name in ("api_key", "db_pass", "EncryptionKey", "hf_token"):
        value = some(20)
        yield Form("name", f"  {name}: {value}", (value,))


_JOINED = (
    *(
        "password == {}",
        "password := {}",
        "password => {}",
        "password -> {}",
        "password != '{}'",
        'password = f"{}"',
    ),
    *(
        "password = b'{}'",
        "password=r'{}'",
        'api_key == "{}"',
        'api_key := "{}"',
        "'api_key' => '{}',",
    ),
    *(
        'password: str = "{}"',
        'self.password = "{}"',
        'os.environ["DB_PASS"] = "{}"',
        "password   =   {}",
    ),
    *(
        "PASSWORD:{}",
        "password='{}'",
        '"password": "{}"',
        "login(user='bob', password='{}')",
        "pwd={};Uid=bob",
    ),
    *(
        "Namespace(lr=0.1, api_key='{}', n=2)",
        "Config(token='{}')",
        "password%3D{}",
        "api_key\\u003d{}",
    ),
    *(
        "export DB_PASSWORD={}",
        "setenv DB_PASSWORD {}",
        "ENV DB_PASSWORD {}",
        '$env:DB_PASSWORD = "{}"',
    ),
    *(
        "set DB_PASSWORD={}",
        "--api-key {}",
        "--api-key={}",
        "--password '{}'",
        "-Dpassword={}",
        "--db-pass {}",
    ),
    *(
        "<password>{}</password>",
        '<add key="Password" value="{}"/>',
        '<ApiKey type="s">{}</ApiKey>',
    ),
    *(
        "('password', '{}')",
        "['--password', '{}']",
        "['train.py', '--hf-token', '{}']",
        '("api_key", "{}"),',
    ),
    *(
        '{{"name": "DB_PASSWORD", "value": "{}"}}',
        "- name: DB_PASSWORD\n  value: {}",
        "password is {}",
    ),
    *(
        "the api key is {}",
        "API key: {}",
        "secret key = {}",
        "password for bob: {}",
        "token was {}",
    ),
    *(
        "ALTER USER bob WITH PASSWORD '{}'",
        "CREATE USER 'bob' IDENTIFIED BY '{}'",
        "//registry.npmjs.org/:_authToken={}",
    ),
    *(
        "aws configure set aws_secret_access_key {}",
        'password=\\"{}\\"',
        "`password`: `{}`",
        "passwd:\t{}",
    ),
    *(
        *(
            "--hf_token {}",
            "--wandb-key {}",
            "wandb.login(key='{}')",
            "password=quote('{}')",
            "SecretStr('{}')",
        ),
        *(
            "requests.get(u, auth=('bob', '{}'))",
            "ACCESS_TOKEN   {}",
            "npm config set //r/:_authToken {}",
            "app_key={}",
        ),
        *(
            "ldap_bind_password {}",
            "Password for 'https://bob@x.com': {}",
            '{{"username":"bob","key":"{}"}}',
        ),
        "environ({{'DB_PASS': '{}', 'HOME': '/root'}})",
        "password&quot;:&quot;{}&quot;",
        'password="${{x:-{}}}"',
    ),
)


def joined() -> Iterator[Form]:
    for text in _JOINED:
        value = some(16)
        yield Form("joined", text.format(value), (value,))
    one, two = some(9) + "!", some(12)
    yield Form("joined", f'password = "{one} {two}"', (one, two))
    yield Form("joined", f'password = "{one}\\"{two}"', (one, two))
    yield Form("joined", f'"password": "${one}"', (one,))


def nested() -> Iterator[Form]:
    value = some(18)
    for name in ("password", "api_key", "AccountKey"):
        text = json.dumps({"user": "bob", name: value})
        for depth in range(4):
            yield Form("JSON in JSON", text, (value,))
            text = json.dumps({"level": depth, "body": text})
    yield Form(
        "JSON in JSON",
        json.dumps(json.dumps({"password": value})).replace('\\"', "\\u0022"),
        (value,),
    )
    yield Form("repr in repr", repr(repr({"password": value, "it's": 1})), (value,))


def files() -> Iterator[Form]:
    value = some(15)
    yield Form(
        "netrc", f"machine api.wandb.ai login user password {value}", (value,)
    )
    yield Form(
        "netrc",
        f"machine api.wandb.ai\n  login user\n  password {value}\n",
        (value,),
    )
    yield Form("netrc", f"default login bob password {value}", (value,))
    pair = base64.b64encode(f"bob:{value}".encode()).decode()
    yield Form(
        "docker", json.dumps({"auths": {"ghcr.io": {"auth": pair}}}), (pair,)
    )
    yield Form("npmrc", f"_auth={pair}", (pair,))
    long = some(86)
    yield Form(
        "azure",
        f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={long}==;E=",
        (long,),
    )
    yield Form(
        "azure",
        f"Endpoint=sb://x.net/;SharedAccessKeyName=n;SharedAccessKey={value}=",
        (value,),
    )
    yield Form("odbc", f"Driver=x;Server=db;Uid=bob;Pwd={value};", (value,))
    yield Form(
        "jdbc", f"jdbc:sqlserver://db:1433;user=bob;password={value};", (value,)
    )
    long = some(60)
    yield Form("kubeconfig", "client-key-data: " + "LS0tLS1CRUdJTi" + long, (long,))
    yield Form("kubeconfig", f"    token: {long}", (long,))
    yield Form(
        "properties", f"hibernate.connection.password {value}", (value,), hard=True
    )
    yield Form("pgpass", f"db.acme.com:5432:app:bob:{value}", (value,), hard=True)
    yield Form("htpasswd", f"bob:$apr1$x${value}", (value,), hard=True)
    for scheme in (
        "mongodb+srv",
        "postgresql",
        "redis",
        "amqp",
        "https",
        "mysql+pymysql",
        "s3",
        "socks5",
    ):
        value = some(12)
        yield Form(
            "URL", f"connect to {scheme}://bob:{value}@db.acme.com:5432/x", (value,)
        )
    yield Form("URL", f"redis://:{value}@cache:6379", (value,))
    value = some(32, HEX)
    yield Form("URL", f"https://{value}@o1.ingest.sentry.io/2", (value,))
    value = some(39)
    yield Form("path or key", f"aws_secret_access_key = /{value}", (value,))


def sent() -> Iterator[Form]:
    value = some(24)
    pair = base64.b64encode(f"bob:{some(10)}".encode()).decode()
    for text in (
        "Authorization: Bearer {}", "authorization: token {}", "{{'Authorization': 'Bearer {}'}}", "Bearer {}",
        "(b'authorization', b'Bearer {}')", "Proxy-Authorization: ApiKey {}", "x-api-key: {}", "X-Auth-Token: {}",
        "-H 'apikey: {}'", "curl -H \"PRIVATE-TOKEN: {}\" https://x", "curl -u bob:{} https://x", "sshpass -p {} ssh x",
        "redis-cli -h x -a {}", "docker login -u bob -p {} ghcr.io", "mysql -u root -p{} db", "curl --user 'bob:{}' x",
        "Cookie: a=1; session={}; b=2", "Set-Cookie: sid={}; Path=/", "'Cookie': 'theme=x; auth={}'",
        "GET /x?access_token={}&b=1", "https://x/cb?code={}&state=1", "https://x/f?sv=2020&sig={}", "?api_key={}",
        "https://x/?X-Amz-Signature={}&a=1", "&token={}", "https://x/?password={}", "Signature={}, SignedHeaders=x",
        "wget --password={} https://x", "JSESSIONID={}",
    ):  # fmt: skip
        yield Form("sent", text.format(value), (value,))
    yield Form("sent", f"Authorization: Basic {pair}", (pair,))
    yield Form("sent", f"header Basic {pair}", (pair,))


_TOKENS: tuple[tuple[str, int, str], ...] = (
    ("ghp_", 36, LETTERS), ("gho_", 36, LETTERS), ("ghs_", 36, LETTERS), ("github_pat_", 60, LETTERS + "_"),
    ("glpat-", 20, LETTERS), ("gldt-", 20, LETTERS), ("glrt-", 20, LETTERS), ("ATBB", 32, LETTERS),
    ("ATATT3x", 180, LETTERS), ("npm_", 36, LETTERS), ("pypi-AgEI", 80, LETTERS), ("rubygems_", 48, HEX),
    ("dckr_pat_", 27, LETTERS), ("AKCp", 69, LETTERS), ("CCIPAT_", 40, LETTERS), ("bkua_", 40, HEX),
    ("sqp_", 40, HEX), ("lin_api_", 40, LETTERS), ("ntn_", 46, LETTERS), ("figd_", 40, LETTERS),
    ("AKIA", 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), ("ASIA", 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    ("AIza", 35, LETTERS), ("ya29.", 60, LETTERS + "-_"), ("GOCSPX-", 28, LETTERS), ("1//0", 60, LETTERS),
    ("dop_v1_", 64, HEX), ("doo_v1_", 64, HEX), ("LTAI", 20, LETTERS), ("HRKU-", 60, LETTERS), ("nfp_", 36, LETTERS),
    ("rnd_", 28, LETTERS), ("sbp_", 40, HEX), ("pscale_tkn_", 43, LETTERS), ("hvs.", 90, LETTERS), ("hvb.", 90, LETTERS),
    ("dapi", 32, HEX), ("dp.pt.", 43, LETTERS), ("pul-", 40, HEX), ("tskey-auth-", 30, LETTERS),
    ("AGE-SECRET-KEY-1", 58, "ABCDEFGHIJ0123456789"), ("sha256~", 43, LETTERS), ("glsa_", 41, LETTERS),
    ("glc_", 100, LETTERS), ("NRAK-", 27, "ABCDEFGHIJ0123456789"), ("sntrys_", 80, LETTERS), ("hcaik_", 58, HEX),
    ("hf_", 34, LETTERS), ("api_org_", 34, LETTERS), ("sk-", 48, LETTERS), ("sk-ant-api03-", 90, LETTERS),
    ("sk-proj-", 120, LETTERS + "-_"), ("sk-or-v1-", 64, HEX), ("gsk_", 52, LETTERS), ("r8_", 37, LETTERS),
    ("pplx-", 48, LETTERS), ("xai-", 80, LETTERS), ("fw_", 24, LETTERS), ("tgp_v1_", 43, LETTERS),
    ("nvapi-", 64, LETTERS + "-_"), ("lsv2_pt_", 32, HEX), ("pcsk_", 60, LETTERS), ("tvly-", 32, LETTERS),
    ("jina_", 60, LETTERS), ("rpa_", 40, "ABCDEFGHIJ0123456789"), ("wandb_v1_", 60, LETTERS),
    ("xoxb-1234567890-", 24, LETTERS), ("xoxp-1-2-", 32, HEX), ("xapp-1-A1-2-", 40, HEX), ("key-", 32, HEX),
    ("xkeysib-", 64, HEX), ("SK", 32, HEX), ("sk_live_", 24, LETTERS), ("rk_test_", 24, LETTERS),
    ("whsec_", 32, LETTERS), ("sq0atp-", 22, LETTERS), ("shpat_", 32, HEX), ("shippo_live_", 40, HEX),
    ("EZAK", 54, LETTERS), ("PMAK-" + "5f" * 12 + "-", 34, HEX),
)  # fmt: skip


def tokens() -> Iterator[Form]:
    for prefix, length, alphabet in _TOKENS:
        value = some(length, alphabet)
        if prefix == "xkeysib-":
            value += "-" + some(16)
        yield Form(
            "token", f"RuntimeError: 401 for {prefix}{value} at step 3", (value,)
        )
    jwt = ".".join(("eyJ" + some(33), "eyJ" + some(60), some(43)))
    yield Form("token", f"decoded {jwt}", (jwt[40:],))
    value = some(43)
    yield Form("token", "sent by SG." + some(22) + "." + value, (value,))
    for address in (
        "https://hooks.slack.com/services/T0A1B2C3/B0A1B2C3/",
        "https://hooks.slack.com/workflows/T0A1/A0B1/123/",
        "https://discord.com/api/webhooks/1234567890/",
        "https://discordapp.com/api/v10/webhooks/1234567890/",
        "https://acme.webhook.office.com/webhookb2/",
        "https://hooks.zapier.com/hooks/catch/1234/",
        "https://maker.ifttt.com/trigger/done/with/key/",
        "https://open.feishu.cn/open-apis/bot/v2/hook/",
        "https://api.telegram.org/bot123456789:",
        "https://chat.googleapis.com/v1/spaces/A/messages?key=",
    ):
        value = some(40)
        yield Form("webhook", f"notify {address}{value}", (value,))
    value = some(33)
    yield Form(
        "token", f"bot {_RANDOM.randrange(10**9, 10**10)}:AA{value}", (value,)
    )
    value = some(40, HEX)
    yield Form("token", f"wandb: {value}", (value,), hard=True)


def _key(lines: int = 6) -> list[str]:
    return [*(some(64, LETTERS + "+/") for _ in range(lines)), some(22) + "=="]


_PREFIXES: tuple[Callable[[int], str], ...] = (
    lambda n: "",
    lambda n: "[rank1]: ",
    lambda n: f"2026-01-01 10:00:{n:02},{n * 37 % 1000:03} INFO train: ",
    lambda n: "> ",
    lambda n: "    ",
    lambda n: f"2026-01-01T10:00:00.{n:09}Z stdout F ",
    lambda n: f"Nov 23 10:11:{n:02} host7 train[4711]: ",
    lambda n: "0: ",
    lambda n: "[default3]:",
    lambda n: "\t| ",
    lambda n: "\x1b[32m" + "> ",
    lambda n: f"[rank0]:2026-01-01 10:00:{n:02} ",
    lambda n: "(Worker pid=123, ip=10.0.0.7) ",
)


def private_keys() -> Iterator[Form]:
    kinds = ("RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED ", "DSA ", "PGP ")
    for index, prefix in enumerate(_PREFIXES):
        kind = kinds[index % len(kinds)]
        block = " BLOCK" if kind == "PGP " else ""
        body = _key()
        lines = [
            f"-----BEGIN {kind}PRIVATE KEY{block}-----",
            *body,
            f"-----END {kind}PRIVATE KEY{block}-----",
        ]
        yield Form(
            "private key",
            "\n".join(prefix(n) + line for n, line in enumerate(lines)),
            tuple(body),
        )
    body = _key()
    pem = "\n".join(
        ["-----BEGIN PRIVATE" + " KEY-----", *body, "-----END PRIVATE KEY-----", ""]
    )
    yield Form("private key", json.dumps({"private_key": pem}), tuple(body))
    yield Form("private key", json.dumps(json.dumps({"key": pem})), tuple(body))
    yield Form("private key", repr(pem.encode()), tuple(body))
    yield Form("private key", pem.replace("\n", " "), tuple(body))
    yield Form(
        "private key",
        "".join(f'    "{line}\\n"\n' for line in pem.split("\n")),
        tuple(body),
    )
    yield Form(
        "private key",
        "key: |\n" + "".join(f"  {line}\n" for line in pem.split("\n")),
        tuple(body),
    )
    yield Form("private key", pem.replace("\n", "\r\n"), tuple(body))
    yield Form(
        "private key",
        "".join(f"\x1b[33m{line}\x1b[0m\n" for line in pem.split("\n")),
        tuple(body),
    )
    yield Form("private key", pem.split("-----END")[0], tuple(body))
    with_others = "\n".join(
        f"{line}\n[rank{n}]: step {n} loss 0.{n}"
        for n, line in enumerate(pem.split("\n"))
    )
    yield Form("private key", with_others, tuple(body))
    yield Form(
        "private key",
        "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 7\n"
        + "\n".join(body)
        + "\nPrivate-MAC: 1",
        tuple(body),
    )
    yield Form(
        "private key",
        base64.b64encode(pem.encode()).decode(),
        (base64.b64encode(pem.encode()).decode()[60:],),
    )


def coloured() -> Iterator[Form]:
    value = some(20)
    for text in (
        "\x1b[32mpassword\x1b[0m=\x1b[33m{}\x1b[0m", "\x1b[1mapi_key\x1b[0m: {}", "password=\x1b[31m{}\x1b[0m",
        "\x1b[2K\rtoken \x1b[38;5;12m--api-key\x1b[0m {}", "\\u001b[32mpassword\\u001b[0m=\\u001b[33m{}\\u001b[0m",
        "\x1b]8;;https://bob:{}@x.com\x07link\x1b]8;;\x07 \x1b[0m",
    ):  # fmt: skip
        yield Form("coloured", text.format(value), (value,))
    half = some(18), some(18)
    yield Form("coloured", f"\x1b[31mghp_{half[0]}\x1b[0m{half[1]}", half)


def prose() -> Iterator[Form]:
    value = some(10)
    yield Form("prose", f"log in as bob / {value}", (value,), hard=True)
    yield Form("prose", f"pw: {value}", (value,))
    yield Form("prose", f"use {value} as the password", (value,), hard=True)
    yield Form("prose", f"pass phrase is {value}", (value,), hard=True)
    yield Form(
        "prose", "passphrase: correct horse battery staple", ("battery",), hard=True
    )


def all_forms() -> list[Form]:
    """Every form."""
    families = (
        names,
        joined,
        nested,
        files,
        sent,
        tokens,
        private_keys,
        coloured,
        prose,
    )
    return [one for family in families for one in family()]


HARMLESS = (
    "%password : Tensor = aten::add(%secret, %key, %6) # /home/u/token_mixer.py:12:8",
    "def forward(self, token: Tensor, password: str, secret: Optional[int] = None)",
    "pad_token=<pad> mask_token='[MASK]' token_type_ids: 0 tokens=512 max_new_token=4 eos_token: '</s>'",
    "secret = os.environ['X']; api_key = getpass('key: '); password=password, token=token",
    "query_key = torch.matmul(key, value); key_padding_mask: None; self.key = nn.Linear(64, 64)",
    "forward_pass = 3 backward_pass: 1.2ms FORWARD_PASS=12 first_pass=True PASS: tests/test_a.py",
    "password=${DB_PASSWORD} api_key={{ key }} secret=<your-secret> token=%(token)s password='********'",
    "the password is required; the token is invalid; authorization: required",
    "sk-learn-contrib-estimators task-12345678901234567890 fw_bw_partition npm_config_registry",
    "key=0123456789abcdef0123 cache key: conv2d_relu_1 primary_key: id foreign_key: user",
    "[DUMP profiling_graph_executor_impl.cpp:698] graph(%input.1 : Float(8, 128, strides=[128, 1]))",
    "__launch_bounds__(512) __global__ void CUDAGeneratedKernel(Tensor<float, 2> T0) { private int x; }",
    "/opt/conda/lib/python3.10/site-packages/torch/nn/modules/module.py:1102:0",
    "basic block1234 Basic operations, basic auth; Bearer of news",
    "x@w.T; q@k.transpose(-2, -1); y = x @ w.mT; a@b.mm",
    "SKIPPED SK_RATIO SG.conv1.weight dapi docs hvs. pul-down r8_kernel pat pattern",
)
"""Lines of programs and logs with words of secrets in them, and no secret."""
