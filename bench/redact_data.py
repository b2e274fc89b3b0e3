"""Secrets that are made up at run time, and the texts in which people leave them.

Nothing in this file is a token: each is drawn from a seeded generator, so that no scanner takes the file for a leak and
every run sees the same ones. A carrier writes a secret as its format wants it (escaped, quoted, percent-encoded).
"""

from __future__ import annotations

import base64
import json
import random
import string
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass

LETTERS, DIGITS, LOWER, UPPER = string.ascii_letters, string.digits, string.ascii_lowercase, string.ascii_uppercase
ALPHANUMERIC = LETTERS + DIGITS
BASE64 = ALPHANUMERIC + "+/"
URLSAFE = ALPHANUMERIC + "_-"
HEX = "0123456789abcdef"
BARE_SIGNS = "!@%^*-_+=.~?:#"  # what people leave unquoted in env files and shells
ALL_SIGNS = BARE_SIGNS + "$&,;(){}[]<>|/"
WORDS = (
    "correct horse battery staple purple monkey dishwasher winter summer orange dragon falcon silver river mountain "
    "coffee pepper window garden rocket thunder marble copper velvet lantern harbor meadow puzzle walnut cricket "
    "hunter sunny banana trouble castle pirate engine forest planet magnet"
).split()
USERS = ("ada", "grace", "svc_app", "deploy", "root")
HOSTS = ("db.internal", "10.0.4.17", "cache-01.prod.local", "localhost")


@dataclass(frozen=True)
class Secret:
    """A made-up secret; `prefix` is what its vendor puts before every one, and no loss if it stays."""

    kind: str
    value: str
    prefix: str = ""

    @property
    def is_vendor(self) -> bool:
        return self.kind.startswith("vendor:")


def draw_text(rng: random.Random, alphabet: str, length: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(length))


def draw_words(rng: random.Random, count: int) -> list[str]:
    return rng.sample(WORDS, count)


# What the vendors document or scanners publish: a prefix, and how the rest is made.
Body = Callable[[random.Random], str]


def draw_body(alphabet: str, length: int) -> Body:
    return lambda rng: draw_text(rng, alphabet, length)


def join_bodies(separator: str, *bodies: Body) -> Body:
    return lambda rng: separator.join([make(rng) for make in bodies])


def draw_jwt_part(rng: random.Random) -> str:
    claims = {
        "sub": draw_text(rng, DIGITS, 10),
        "name": rng.choice(USERS),
        "iat": rng.randrange(1_500_000_000, 1_800_000_000),
    }
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


def draw_pem_body(rng: random.Random) -> str:
    lines = [draw_text(rng, BASE64, 64) for _ in range(6)]
    return "\n".join([*lines, "-----END RSA PRIVATE " + "KEY-----"])


def draw_discord_token(rng: random.Random) -> str:
    user = base64.b64encode(draw_text(rng, DIGITS, 18).encode()).decode()
    return f"{user}.{draw_text(rng, URLSAFE, 6)}.{draw_text(rng, URLSAFE, 38)}"


VENDORS: tuple[tuple[str, str, Body], ...] = (
    ("airtable", "pat", join_bodies(".", draw_body(ALPHANUMERIC, 14), draw_body(HEX, 64))),
    ("airtable-old", "key", draw_body(ALPHANUMERIC, 14)),
    ("anthropic", "sk-ant-" + "api03-", draw_body(URLSAFE, 93)),
    ("asana", "", lambda rng: f"{draw_text(rng, '12', 1)}/{draw_text(rng, '123456789', 16)}:{draw_text(rng, HEX, 32)}"),
    (
        "asana-v2",
        "2/",
        join_bodies("/", draw_body("123456789", 16), join_bodies(":", draw_body("123456789", 16), draw_body(HEX, 32))),
    ),
    ("atlassian", "ATATT3" + "xFfGF0", draw_body(URLSAFE, 160)),
    ("aws-id", "AKIA", draw_body(UPPER + "234567", 16)),
    ("azure-client", "", lambda rng: f"{draw_text(rng, ALPHANUMERIC, 3)}8Q~{draw_text(rng, URLSAFE, 34)}"),
    ("databricks", "dapi", draw_body(HEX, 32)),
    ("digitalocean", "dop_v1_", draw_body(HEX, 64)),
    ("discord", "", draw_discord_token),
    ("docker", "dckr_pat_", draw_body(URLSAFE, 27)),
    ("doppler", "dp.pt.", draw_body(ALPHANUMERIC, 43)),
    ("dropbox", "sl.", draw_body(URLSAFE, 135)),
    ("facebook", "EAA", draw_body(ALPHANUMERIC, 120)),
    ("figma", "figd_", draw_body(URLSAFE, 40)),
    ("fly", "fm2_", draw_body(BASE64, 100)),
    ("github", "ghp_", draw_body(ALPHANUMERIC, 36)),
    ("github-app", "ghs_", draw_body(ALPHANUMERIC, 36)),
    ("github-fine", "github_pat_", join_bodies("_", draw_body(ALPHANUMERIC, 22), draw_body(ALPHANUMERIC, 59))),
    ("gitlab", "glpat-", draw_body(URLSAFE, 20)),
    ("google-api", "AIza", draw_body(URLSAFE, 35)),
    ("google-client", "GOCSPX-", draw_body(URLSAFE, 28)),
    ("google-oauth", "ya29.", draw_body(URLSAFE, 120)),
    ("grafana", "glsa_", join_bodies("_", draw_body(ALPHANUMERIC, 32), draw_body(HEX, 8))),
    ("heroku", "HRKU-AA", draw_body(URLSAFE, 58)),
    ("huggingface", "hf_", draw_body(LETTERS, 34)),
    ("jwt", "eyJhbGciOiJIUzI1NiJ9.", join_bodies(".", draw_jwt_part, draw_body(URLSAFE, 43))),
    ("linear", "lin_api_", draw_body(ALPHANUMERIC, 40)),
    ("mailgun", "key-", draw_body(HEX, 32)),
    ("mapbox", "sk.eyJ", join_bodies(".", draw_body(ALPHANUMERIC, 60), draw_body(URLSAFE, 22))),
    ("newrelic", "NRAK-", draw_body(UPPER + DIGITS, 27)),
    ("notion", "ntn_", draw_body(ALPHANUMERIC, 46)),
    ("npm", "npm_", draw_body(ALPHANUMERIC, 36)),
    ("openai", "sk-" + "proj-", draw_body(URLSAFE, 120)),
    ("openai-old", "sk-", draw_body(ALPHANUMERIC, 48)),
    ("pem", "-----BEGIN RSA PRIVATE " + "KEY-----\n", draw_pem_body),
    ("planetscale", "pscale_tkn_", draw_body(URLSAFE, 43)),
    ("postman", "PMAK-", join_bodies("-", draw_body(HEX, 24), draw_body(HEX, 34))),
    ("pypi", "pypi-AgEIcHlwaS5vcmc", draw_body(URLSAFE, 140)),
    ("sendgrid", "SG.", join_bodies(".", draw_body(URLSAFE, 22), draw_body(URLSAFE, 43))),
    ("sentry", "sntrys_", draw_body(BASE64, 120)),
    ("shopify", "shpat_", draw_body(HEX, 32)),
    (
        "slack",
        "xox" + "b-",
        join_bodies("-", draw_body(DIGITS, 12), draw_body(DIGITS, 12), draw_body(ALPHANUMERIC, 24)),
    ),
    ("square", "sq0atp-", draw_body(URLSAFE, 22)),
    ("stripe", "sk_" + "live_", draw_body(ALPHANUMERIC, 24)),
    ("supabase", "sbp_", draw_body(HEX, 40)),
    ("tailscale", "tskey-auth-", join_bodies("-", draw_body(ALPHANUMERIC, 12), draw_body(ALPHANUMERIC, 32))),
    ("telegram", "", lambda rng: f"{draw_text(rng, '123456789', 10)}:AA{draw_text(rng, URLSAFE, 33)}"),
    ("terraform", "", lambda rng: f"{draw_text(rng, ALPHANUMERIC, 14)}.atlasv1.{draw_text(rng, URLSAFE, 65)}"),
    ("twilio", "SK", draw_body(HEX, 32)),
    ("vault", "hvs.", draw_body(URLSAFE, 92)),
    ("vercel", "vcp_", draw_body(ALPHANUMERIC, 56)),
)
# Shapes that say nothing by themselves: they go after a name, and nowhere else is it asked for.
NAMELESS = ("airtable-old",)


def make_vendor(rng: random.Random, number: int) -> Secret:
    name, prefix, make = VENDORS[number % len(VENDORS)]
    value = prefix + make(rng)
    if name == "telegram":
        prefix = value.partition("AA")[0]  # the bot's number, which everybody sees
    return Secret(f"vendor:{name}", value, prefix)


def make_password(rng: random.Random, signs: str) -> str:
    """At least one small and one large letter, a digit and a sign, as password generators do."""
    length = rng.randrange(10, 25)
    drawn = [rng.choice(LOWER), rng.choice(UPPER), rng.choice(DIGITS), rng.choice(signs)]
    drawn += [rng.choice(ALPHANUMERIC + signs) for _ in range(length - 4)]
    rng.shuffle(drawn)
    # A sign at an edge may belong to the carrier (a dash is an option, a dot ends a sentence).
    return rng.choice(LETTERS) + "".join(drawn) + rng.choice(ALPHANUMERIC)


PASSWORDS: dict[str, Callable[[random.Random, str], str]] = {
    "password with signs": make_password,
    "password of letters and digits": lambda rng, signs: draw_text(rng, ALPHANUMERIC, rng.randrange(10, 25)),
    "mixed-case letters": lambda rng, signs: draw_text(rng, LETTERS, rng.randrange(10, 25)),
    "small letters": lambda rng, signs: draw_text(rng, LOWER, rng.randrange(10, 20)),
    "camel-case words": lambda rng, signs: "".join(word.title() for word in draw_words(rng, 3)),
    "words with dashes": lambda rng, signs: "-".join(draw_words(rng, rng.randrange(3, 5))),
    "words in one": lambda rng, signs: "".join(draw_words(rng, 3)),
    "word and digits": lambda rng, signs: draw_words(rng, 1)[0] + draw_text(rng, DIGITS, rng.randrange(1, 5)),
    "words, digits and a name": lambda rng, signs: (
        f"{draw_words(rng, 1)[0]}{draw_text(rng, DIGITS, 1)}-{draw_text(rng, ALPHANUMERIC, 4)}-{rng.choice(('secret', 'pass', 'key'))}"
    ),
}
KEYS: dict[str, Callable[[random.Random, str], str]] = {
    "hex 32": lambda rng, signs: draw_text(rng, HEX, 32),
    "hex 64": lambda rng, signs: draw_text(rng, HEX, 64),
    "hex 128": lambda rng, signs: draw_text(rng, HEX, 128),
    "base64 18 bytes": lambda rng, signs: base64.b64encode(rng.randbytes(18)).decode(),
    "base64 32 bytes": lambda rng, signs: base64.b64encode(rng.randbytes(32)).decode(),
    "letters and digits 20": lambda rng, signs: draw_text(rng, ALPHANUMERIC, 20),
    "letters and digits 40": lambda rng, signs: draw_text(rng, ALPHANUMERIC, 40),
    "letters 32": lambda rng, signs: draw_text(rng, LETTERS, 32),
    "uuid": lambda rng, signs: "-".join([draw_text(rng, HEX, length) for length in (8, 4, 4, 4, 12)]),
}
PASSWORD_NAMES = (
    "password db_password passwd redis_password smtp_pass mail_passwd passphrase admin_password client_secret jwt_secret "
    "app_secret pwd ldap_bind_password session_secret webhook_secret user_password root_password"
).split()
KEY_NAMES = (
    "api_key access_token auth_token secret_key secret_key_base rails_master_key encryption_key signing_key private_key "
    "access_key bot_token refresh_token aws_secret_access_key github_token openai_api_key app_key auth_key token "
    "consumer_key session_key account_key deploy_token personal_access_token client_secret jwt_secret api_token"
).split()


@dataclass(frozen=True)
class Carrier:
    """A way to leave a secret behind. `write` gets the generator, a name in small letters and the secret."""

    name: str
    write: Callable[[random.Random, str, str], str]
    encode: Callable[[str], str] = lambda value: value  # how the secret stands in the text
    signs: str = BARE_SIGNS
    names: str = "password key"  # which names it can have: `password`, `key`, or none
    kinds: str = "password key vendor"
    file_name: str = "notes.txt"
    multiline: bool = False  # whether a PEM block can stand in it


def encode_json(value: str) -> str:
    return json.dumps(value)[1:-1]


def encode_json_twice(value: str) -> str:
    return encode_json(encode_json(value))


def encode_json_thrice(value: str) -> str:
    return encode_json(encode_json_twice(value))


def escape_quotes(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def escape_xml(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def encode_url(value: str) -> str:
    return urllib.parse.quote(value, safe="")


def encode_base64(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def encode_basic(value: str) -> str:
    return base64.b64encode(b"ada:" + value.encode()).decode()


def to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def to_kebab_case(name: str) -> str:
    return name.replace("_", "-")


def to_pascal_case(name: str) -> str:
    return "".join(word.title() for word in name.split("_"))


def indent_lines(value: str, blanks: int) -> str:
    return value.replace("\n", "\n" + " " * blanks)


def write_one_of(*forms: Callable[[random.Random, str, str], str]) -> Callable[[random.Random, str, str], str]:
    return lambda rng, name, value: rng.choice(forms)(rng, name, value)


def write_short_option(rng: random.Random, name: str, value: str) -> str:
    user, host = rng.choice(USERS), rng.choice(HOSTS)
    return rng.choice(
        (
            f"mysql -h {host} -u {user} -p{value} shop < dump.sql",
            f"mysqldump -u{user} -p'{value}' --single-transaction shop > dump.sql",
            f"redis-cli -h {host} -a {value} ping",
            f"redis-cli -a '{value}' --scan --pattern 'session:*'",
            f"mongosh --host {host} -u {user} -p {value} --authenticationDatabase admin",
            f'mongodump -h {host} -u {user} -p "{value}" --db shop',
            f"sshpass -p {value} ssh {user}@{host} uptime",
            f"docker login registry.example.com -u {user} -p {value}",
            f"ldapsearch -x -H ldap://{host} -D cn={user},dc=example -w {value} -b dc=example",
            f"smbclient //{host}/share -U {user}%{value} -c ls",
            f"htpasswd -bc .htpasswd {user} {value}",
        )
    )


def write_sentence(rng: random.Random, name: str, value: str) -> str:
    words = name.replace("_", " ")
    where = rng.choice(("for the staging box", "of the admin account", "", "on the build server"))
    return rng.choice(
        (
            f"Sure, the {words} {where} is '{value}' and the user is ada.",
            f'The {words} {where} is "{value}". Please rotate it next week.',
            f"I think the {words} is `{value}`, try that.",
            f"use the {words} '{value}' to log in",
            f"We changed the {words} to '{value}' yesterday.",
            f'The {words} was "{value}" before.',
        )
    ).replace("  ", " ")


def write_markdown(rng: random.Random, name: str, value: str) -> str:
    words = name.replace("_", " ").title()
    return rng.choice(
        (
            f"- **{words}:** `{value}`",
            f"- {words}: `{value}`",
            f"| {words} | `{value}` |\n",
            f"* `{name}`: `{value}`",
            f"**{words}**: {value}",
            f"| user | ada |\n| {name} | {value} |\n",
        )
    )


def write_log_line(rng: random.Random, name: str, value: str) -> str:
    at = f"2026-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}T08:{rng.randrange(60):02d}:11.402Z"
    return rng.choice(
        (
            f"{at} INFO  connecting user=ada {name}={value} host=db.internal",
            f'{at} DEBUG [auth] login attempt user="ada" {name}="{value}" ok',
            f"{at} ERROR config: {name}: {value} rejected by server",
            f'[{at}] {{"level":"info","msg":"boot","{to_camel_case(name)}":"{encode_json(value)}"}}',
            f"{at} WARN using default {name} '{value}'",
        )
    )


def write_bare_vendor(rng: random.Random, name: str, value: str) -> str:
    return rng.choice(
        (
            f"{value}\n",
            f"I pasted {value} into the form, then it worked",
            f"pushing with {value}...",
            f"got: {value}",
            f"echo {value} | wc -c",
            f"- {value}\n- second line",
        )
    )


def write_connection_string(rng: random.Random, name: str, value: str) -> str:
    user, host = rng.choice(USERS), rng.choice(HOSTS)
    return rng.choice(
        (
            f"Server={host};Database=shop;User Id={user};Password={value};Encrypt=true",
            f"host={host} port=5432 dbname=shop user={user} password={value} sslmode=require",
            f"jdbc:postgresql://{host}:5432/shop?user={user}&password={value}&ssl=true",
            f"Data Source={host};Initial Catalog=shop;Uid={user};Pwd={value}",
            f"Endpoint=sb://bus.example.com/;SharedAccessKeyName=root;SharedAccessKey={value}",
        )
    )


def write_header(rng: random.Random, name: str, value: str) -> str:
    return rng.choice(
        (
            f"Authorization: Bearer {value}",
            f"authorization: token {value}",
            f"X-Api-Key: {value}",
            f"X-Auth-Token: {value}",
            f"> Authorization: Bearer {value}\n> Accept: */*",
            f'"Authorization": "Bearer {value}",',
            f"PRIVATE-TOKEN: {value}",
            f"X-Vault-Token: {value}",
        )
    )


def write_curl_header(rng: random.Random, name: str, value: str) -> str:
    return rng.choice(
        (
            f"curl -s -H 'Authorization: Bearer {value}' https://api.example.com/v1/me",
            f'curl -H "X-Api-Key: {value}" https://api.example.com/v1/me | jq .',
            f'curl --header "PRIVATE-TOKEN: {value}" https://git.example.com/api/v4/user',
            f"http GET api.example.com/me 'Authorization:Token {value}'",
            f'wget --header="X-Auth-Token: {value}" https://api.example.com/file',
        )
    )


def write_cookie(rng: random.Random, name: str, value: str) -> str:
    return rng.choice(
        (
            f"Cookie: sid={value}; theme=dark",
            f"Set-Cookie: session={value}; Path=/; HttpOnly",
            f"curl -b 'session={value}' https://example.com/account",
            f"curl --cookie 'sessionid={value}; a=b' https://example.com/account",
            f"cookie: csrftoken=abc; sessionid={value}",
        )
    )


def write_kubernetes(rng: random.Random, name: str, value: str) -> str:
    upper = name.upper()
    return rng.choice(
        (
            f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: app\ntype: Opaque\nstringData:\n  {name}: {value}\n",
            f'    spec:\n      containers:\n        - name: app\n          env:\n            - name: {upper}\n              value: "{escape_quotes(value)}"\n',
            f"          env:\n            - name: LOG_LEVEL\n              value: info\n            - name: {upper}\n              value: {value}\n",
            f"stringData:\n  {to_kebab_case(name)}: '{value}'\n  user: ada\n",
        )
    )


def write_xml(rng: random.Random, name: str, value: str) -> str:
    return rng.choice(
        (
            f"<server><username>ada</username><{name}>{value}</{name}></server>",
            f'<add key="{to_pascal_case(name)}" value="{value}" />',
            f'<entry key="{name}">{value}</entry>',
            f'<property name="{to_camel_case(name)}" value="{value}"/>',
            f'<connection user="ada" {name}="{value}" host="db"/>',
        )
    )


CARRIERS: tuple[Carrier, ...] = (
    Carrier("env file", lambda rng, name, value: f"DEBUG=1\n{name.upper()}={value}\nPORT=8080\n", file_name=".env"),
    Carrier(
        "env file, quoted",
        lambda rng, name, value: f'{name.upper()}="{value}"\n',
        escape_quotes,
        ALL_SIGNS.replace("$", ""),
        file_name=".env",
        multiline=True,
    ),
    Carrier(
        "export",
        lambda rng, name, value: f"export {name.upper()}='{value}'\n",
        signs=ALL_SIGNS,
        file_name="setup.sh",
        multiline=True,
    ),
    Carrier(
        "before a command",
        lambda rng, name, value: f"{name.upper()}={value} npm run start -- --port 8080",
        file_name="run.sh",
    ),
    Carrier(
        "printed env",
        lambda rng, name, value: f"PATH=/usr/bin:/bin\n{name.upper()}={value}\nSHELL=/bin/bash",
        signs=ALL_SIGNS.replace("$", "").replace("<", ""),
    ),
    Carrier(
        "JSON",
        lambda rng, name, value: json.dumps(
            {"user": "ada", to_camel_case(name) if rng.random() < 0.5 else name: value, "port": 5432}, indent=2
        ),
        encode_json,
        ALL_SIGNS,
        file_name="config.json",
        multiline=True,
    ),
    Carrier(
        "JSON in JSON",
        lambda rng, name, value: json.dumps({"stdout": json.dumps({name: value, "user": "ada"})}),
        encode_json_twice,
        ALL_SIGNS,
        file_name="log.json",
        multiline=True,
    ),
    Carrier(
        "JSON in JSON in JSON",
        lambda rng, name, value: json.dumps({"a": json.dumps({"b": json.dumps({"n": 1, to_camel_case(name): value})})}),
        encode_json_thrice,
        ALL_SIGNS,
        file_name="log.json",
        multiline=True,
    ),
    Carrier(
        "env file in JSON",
        lambda rng, name, value: json.dumps({"stdout": f"DEBUG=1\n{name.upper()}={value}\nPORT=80"}),
        encode_json,
        file_name="log.json",
    ),
    Carrier(
        "YAML scalar",
        lambda rng, name, value: f"database:\n  host: db\n  {name}: {value}\n  port: 5432\n",
        signs="!@%^*-_+=.~?",
        file_name="values.yaml",
    ),
    Carrier(
        "YAML quoted",
        lambda rng, name, value: f"database:\n  {to_kebab_case(name)}: '{value}'\n  port: 5432\n",
        signs=ALL_SIGNS,
        file_name="values.yaml",
    ),
    Carrier(
        "YAML block",
        lambda rng, name, value: (
            f"auth:\n  {name}: {rng.choice(('|', '|-', '>', '>-'))}\n    {indent_lines(value, 4)}\n  port: 5432\n"
        ),
        signs=ALL_SIGNS,
        file_name="values.yaml",
        multiline=True,
    ),
    Carrier(
        "TOML",
        lambda rng, name, value: f'[database]\n{name} = "{value}"\nport = 5432\n',
        escape_quotes,
        ALL_SIGNS,
        file_name="config.toml",
        multiline=True,
    ),
    Carrier(
        "INI",
        lambda rng, name, value: f"[database]\nuser = ada\n{name} = {value}\nport = 5432\n",
        signs=ALL_SIGNS.replace(";", "").replace("#", ""),
        file_name="config.ini",
    ),
    Carrier(
        "properties",
        lambda rng, name, value: (
            f"app.name=shop\nspring.datasource.{name.replace('_', '.') if rng.random() < 0.3 else name}={value}\n"
        ),
        signs=ALL_SIGNS.replace("$", ""),
        file_name="app.properties",
    ),
    Carrier("long option", lambda rng, name, value: f"./deploy --user ada --{to_kebab_case(name)} {value} --verbose"),
    Carrier(
        "long option with =", lambda rng, name, value: f"./deploy --user ada --{to_kebab_case(name)}={value} --verbose"
    ),
    Carrier(
        "long option, quoted",
        lambda rng, name, value: f"./deploy --{to_kebab_case(name)} '{value}' --verbose",
        signs=ALL_SIGNS,
    ),
    Carrier("short option", write_short_option, signs="!@^*_+=.~?", names="", kinds="password", file_name="run.sh"),
    Carrier(
        "curl -u",
        write_one_of(
            lambda rng, name, value: f"curl -s -u ada:{value} https://api.example.com/v1",
            lambda rng, name, value: f"curl https://api.example.com --user 'ada:{value}'",
            lambda rng, name, value: f'wget -q --http-user=ada --http-password="{value}" https://example.com/f',
        ),
        signs="!@^*_+=.~?-",
        names="",
        kinds="password",
        file_name="run.sh",
    ),
    Carrier(
        "URL",
        write_one_of(
            lambda rng, name, value: f"DATABASE_URL=postgres://ada:{value}@db.internal:5432/shop",
            lambda rng, name, value: f"git clone https://ada:{value}@git.example.com/shop.git",
            lambda rng, name, value: f"redis://:{value}@cache:6379/0",
            lambda rng, name, value: f'client = MongoClient("mongodb+srv://ada:{value}@cluster0.example.net/shop")',
        ),
        encode_url,
        ALL_SIGNS,
        names="",
        kinds="password key",
    ),
    Carrier("connection string", write_connection_string, signs="!@^*_+.~?-", names="", kinds="password key"),
    Carrier(
        "query string",
        lambda rng, name, value: (
            f"GET https://api.example.com/v1/items?page=2&{rng.choice((name, to_camel_case(name)))}={value}&sort=asc"
        ),
        encode_url,
        ALL_SIGNS,
    ),
    Carrier(
        "form body",
        lambda rng, name, value: (
            f"curl -d 'grant_type=password&username=ada&{name}={value}' https://auth.example.com/oauth/token"
        ),
        encode_url,
        ALL_SIGNS,
        file_name="run.sh",
    ),
    Carrier("Authorization header", write_header, names="", kinds="key vendor"),
    Carrier(
        "Authorization: Basic",
        lambda rng, name, value: f"Authorization: Basic {encode_basic(value)}",
        encode_basic,
        ALL_SIGNS,
        names="",
        kinds="password",
    ),
    Carrier("curl -H", write_curl_header, names="", kinds="key vendor", file_name="run.sh"),
    Carrier("cookie", write_cookie, names="", kinds="key"),
    Carrier("prose, quoted", write_sentence, signs="!@%^*-_+=.~?:#$&", names="password", kinds="password key vendor"),
    Carrier("markdown", write_markdown, signs="!@%^-_+=.~?:#", file_name="README.md"),
    Carrier(
        "Python",
        write_one_of(
            lambda rng, name, value: f'{name} = "{value}"',
            lambda rng, name, value: f"connect(host='db', {name}='{value}', port=5432)",
            lambda rng, name, value: f'settings["{name}"] = "{value}"',
            lambda rng, name, value: f'{name.upper()}: str = "{value}"',
            lambda rng, name, value: f'os.environ["{name.upper()}"] = "{value}"',
            lambda rng, name, value: f'os.getenv("{name.upper()}", "{value}")',
        ),
        escape_quotes,
        ALL_SIGNS,
        file_name="app.py",
        multiline=True,
    ),
    Carrier(
        "JavaScript and TypeScript",
        write_one_of(
            lambda rng, name, value: f"const {to_camel_case(name)} = '{value}';",
            lambda rng, name, value: f'export const {name.upper()}: string = "{value}";',
            lambda rng, name, value: f"  {to_camel_case(name)}: `{value}`,",
            lambda rng, name, value: f"process.env.{name.upper()} = '{value}'",
            lambda rng, name, value: f"const key = process.env.{name.upper()} || '{value}';",
        ),
        escape_quotes,
        ALL_SIGNS.replace("$", ""),
        file_name="app.ts",
        multiline=True,
    ),
    Carrier(
        "Go",
        write_one_of(
            lambda rng, name, value: f'{to_camel_case(name)} := "{value}"',
            lambda rng, name, value: f'const {to_pascal_case(name)} string = "{value}"',
            lambda rng, name, value: f"\t\t{to_pascal_case(name)}: `{value}`,",
            lambda rng, name, value: f'os.Setenv("{name.upper()}", "{value}")',
        ),
        escape_quotes,
        ALL_SIGNS,
        file_name="app.go",
        multiline=True,
    ),
    Carrier(
        "Rust",
        write_one_of(
            lambda rng, name, value: f'let {name} = "{value}".to_string();',
            lambda rng, name, value: f'const {name.upper()}: &str = "{value}";',
            lambda rng, name, value: f'    {name}: String::from("{value}"),',
            lambda rng, name, value: f'.{name}("{value}")',
        ),
        escape_quotes,
        ALL_SIGNS,
        file_name="app.rs",
        multiline=True,
    ),
    Carrier(
        "Java",
        write_one_of(
            lambda rng, name, value: f'private static final String {name.upper()} = "{value}";',
            lambda rng, name, value: f'config.set{to_pascal_case(name)}("{value}");',
            lambda rng, name, value: f'props.put("{name}", "{value}");',
            lambda rng, name, value: f'String {to_camel_case(name)} = "{value}";',
        ),
        escape_quotes,
        ALL_SIGNS,
        file_name="App.java",
        multiline=True,
    ),
    Carrier(
        "Ruby",
        write_one_of(
            lambda rng, name, value: f"config.{name} = '{value}'",
            lambda rng, name, value: f"  :{name} => '{value}',",
            lambda rng, name, value: f"ENV['{name.upper()}'] = '{value}'",
            lambda rng, name, value: f"  {name}: '{value}',",
            lambda rng, name, value: f"ENV.fetch('{name.upper()}', '{value}')",
        ),
        signs=ALL_SIGNS,
        file_name="app.rb",
    ),
    Carrier(
        "PHP",
        write_one_of(
            lambda rng, name, value: f"define('{name.upper()}', '{value}');",
            lambda rng, name, value: f"${to_camel_case(name)} = '{value}';",
            lambda rng, name, value: f"'{name}' => env('{name.upper()}', '{value}'),",
            lambda rng, name, value: f"'{name}' => '{value}',",
        ),
        signs=ALL_SIGNS,
        file_name="app.php",
    ),
    Carrier(
        "Dockerfile",
        write_one_of(
            lambda rng, name, value: f"FROM alpine\nENV {name.upper()}={value}\n",
            lambda rng, name, value: f"FROM alpine\nENV {name.upper()} {value}\n",
            lambda rng, name, value: f"ARG {name.upper()}={value}\nRUN make\n",
            lambda rng, name, value: f'ENV PORT=80 {name.upper()}="{value}"\n',
        ),
        file_name="Dockerfile",
    ),
    Carrier("Kubernetes", write_kubernetes, signs="!@%^*-_+=.~?", file_name="app.yaml"),
    Carrier(
        "docker-compose",
        write_one_of(
            lambda rng, name, value: f"services:\n  db:\n    environment:\n      - {name.upper()}={value}\n",
            lambda rng, name, value: f"    environment:\n      {name.upper()}: {value}\n",
            lambda rng, name, value: f'      - "{name.upper()}={value}"\n',
        ),
        signs="!@%^*-_+=.~?",
        file_name="docker-compose.yml",
    ),
    Carrier(
        "Terraform",
        write_one_of(
            lambda rng, name, value: f'resource "aws_db_instance" "main" {{\n  {name} = "{value}"\n}}\n',
            lambda rng, name, value: f'variable "{name}" {{\n  default = "{value}"\n}}\n',
            lambda rng, name, value: f'{name}    = "{value}"\n',
        ),
        escape_quotes,
        ALL_SIGNS.replace("$", ""),
        file_name="main.tf",
        multiline=True,
    ),
    Carrier(
        "netrc",
        write_one_of(
            lambda rng, name, value: f"machine api.example.com login ada password {value}\n",
            lambda rng, name, value: f"machine api.example.com\n  login ada\n  password {value}\n",
        ),
        signs=ALL_SIGNS,
        names="",
        file_name=".netrc",
        kinds="password key vendor",
    ),
    Carrier(
        ".npmrc",
        write_one_of(
            lambda rng, name, value: f"//packages.example.com/:_authToken={value}\n",
            lambda rng, name, value: f"//npm.example.com/:_password={value}\n",
            lambda rng, name, value: f"_auth={value}\n",
        ),
        names="",
        kinds="key vendor",
        file_name=".npmrc",
    ),
    Carrier(
        "pgpass",
        lambda rng, name, value: f"{rng.choice(HOSTS)}:5432:{rng.choice(('shop', '*'))}:{rng.choice(USERS)}:{value}\n",
        signs="!@%^*-_+=.~?#$&",
        names="",
        kinds="password key",
        file_name=".pgpass",
    ),
    Carrier("log line", write_log_line, signs="!@%^*-_+=.~?:#"),
    Carrier("XML", write_xml, escape_xml, "!@%^*-_+=.~?:#&$<>", file_name="config.xml"),
    Carrier("diff", lambda rng, name, value: f"@@ -1,3 +1,3 @@\n-{name.upper()}=\n+{name.upper()}={value}\n DEBUG=1\n"),
    Carrier(
        "docker config",
        lambda rng, name, value: json.dumps({"auths": {"ghcr.io": {"auth": encode_basic(value)}}}, indent=2),
        encode_basic,
        ALL_SIGNS,
        names="",
        kinds="password",
        file_name="config.json",
    ),
    Carrier(
        "numbered by a tool",
        lambda rng, name, value: f"     1\u2192DEBUG=1\n     2\u2192{name.upper()}={value}\n     3\u2192PORT=80\n",
    ),
    Carrier("bare", write_bare_vendor, names="", kinds="vendor", multiline=True),
)


@dataclass(frozen=True)
class Sample:
    """One secret in one carrier."""

    carrier: Carrier
    secret: Secret
    text: str
    encoded: str


def make_samples(per_carrier: int, seed: int = 20261117) -> list[Sample]:
    samples = []
    for carrier in CARRIERS:
        rng = random.Random(f"{seed} {carrier.name}")
        vendor_number = rng.randrange(len(VENDORS))
        for number in range(per_carrier):
            families = carrier.kinds.split()
            family = families[number % len(families)]
            if family == "vendor":
                secret = make_vendor(rng, vendor_number)
                vendor_number += 1
                while not can_carry(carrier, secret):
                    secret = make_vendor(rng, vendor_number)
                    vendor_number += 1
            else:
                kinds = PASSWORDS if family == "password" else KEYS
                kind = list(kinds)[number // len(families) % len(kinds)]
                secret = Secret(kind, kinds[kind](rng, carrier.signs))
            # Words are passwords; keys and tokens stand after both sorts of names.
            names = PASSWORD_NAMES if family == "password" or carrier.names == "password" else KEY_NAMES
            text = carrier.write(
                rng,
                rng.choice(names),
                secret.value if carrier.encode in SELF_ENCODING else carrier.encode(secret.value),
            )
            samples.append(Sample(carrier, secret, text, carrier.encode(secret.value)))
    return samples


# Carriers whose `write` encodes by itself, with the standard library's own writer.
SELF_ENCODING = (encode_json, encode_json_twice, encode_json_thrice, encode_basic)


def can_carry(carrier: Carrier, secret: Secret) -> bool:
    if "\n" in secret.value and not carrier.multiline:
        return False
    return not (carrier.name == "bare" and secret.kind.removeprefix("vendor:") in NAMELESS)
