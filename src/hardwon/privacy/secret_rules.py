"""The table of rules for secrets, each with its examples.

Every secret of a rule's kind contains one of its literals; the pattern is tried only where one is found. The examples
must be redacted and the counter-examples kept; `tests/unit/privacy/test_secret_rules.py` tries them all. The hook
imports this file, and a module of constants loads faster than JSON or TOML.

The examples are assembled from pieces, so that secret scanners do not report this file. Patterns are compiled as ASCII
and verbose. After a literal a pattern may read only a bounded part of the text, or the secret itself.
"""

from __future__ import annotations

from hardwon.types import frozen

_SAMPLE_KEY, _SAMPLE_HEX = "A1b2C3d4E5f6G7h8" + "J9k0L1m2N3p4Q5r6" + "S7t8U9v0W1x2Y3z4", "0f1e2d3c4b5a6978" * 4


@frozen
class SecretRule:
    """One kind of secret, recognised by its shape or by the command it is passed to."""

    kind: str
    literals: tuple[str, ...]
    # The last named group that matched is the secret; without one, the whole match is.
    pattern: str
    # Must be redacted: the text before the secret, and the secret.
    examples: tuple[tuple[str, str], ...]
    # Must stay unchanged.
    counter_examples: tuple[str, ...]
    # folded: ignore case; random: the secret must not read like words; unbroken: the literal is in one of the runs of
    # `randomness.find_unbroken_runs`, at least `redaction.MIN_RUN_LENGTH` long; spoken: the secret is in a sentence
    flags: str = ""
    # Characters, besides letters and digits, that may not precede it; None if anything may.
    not_after: str | None = None
    # How many characters the match begins before the literal.
    lead_length: int = 0
    # The text must also contain one of these.
    also_required: tuple[str, ...] = ("",)


# Keys with a vendor's prefix. A row: the characters that follow, their minimum number, the prefixes, and a word that has
# such a prefix but is not a key. No prefix is a common word, because each hit costs a pattern match.
_HEX_DIGITS, _ALPHANUMERIC, _WORD, _BASE64 = (
    "[0-9a-fA-F]",
    "[A-Za-z0-9]",
    r"[\w-]",
    "[A-Za-z0-9+/=_-]",
)
_DOTTED = r"[\w.-]"
PREFIX_SAMPLES = {
    _HEX_DIGITS: _SAMPLE_HEX,
    _ALPHANUMERIC: _SAMPLE_KEY * 2,
    _WORD: ("0f1e2d3c-4b5a" + "-6978-") * 5,
    _BASE64: _SAMPLE_KEY * 2,
    _DOTTED: ("A1b2C3d4E5f6G7h8" + "J9k0L1m2N3p4Q5r6.") * 3,
}
PrefixRow = tuple[str, int, str, str]
UNBROKEN_PREFIXES: tuple[PrefixRow, ...] = (
    (
        _HEX_DIGITS,
        32,
        "shpat_ shpss_ shpca_ shppa_ dapi fc- p8e- lsv2_pt_ lsv2_sk_ sgp_ ATTA",
        "dapi_client_for_databricks_jobs",
    ),
    (
        _HEX_DIGITS,
        40,
        "sbp_ pul- e2b_ squ_ sqp_ sqa_ shippo_live_ shippo_test_ rubygems_ sntryu_ xkeysib-",
        "sqa_session_maker_factory",
    ),
    (_HEX_DIGITS, 40, "dop_v1_ doo_v1_ dor_v1_ s-s4t2ud- s-s4t2af-", "dop_v1_deprecated"),
    (_ALPHANUMERIC, 20, "LTAI NRAK- aio_ rnd_ fw_ phx_ nfp_ ddp_ ATBB ops_eyJ", "fw_update_in_progress_flag"),
    (_WORD, 20, "glsa_ ATATT3 ATCTT3 dckr_pat_ dckr_oat_", "dckr_pat_from_settings"),
    (_ALPHANUMERIC, 30, "npm_", "npm_config_registry"),
    (
        _ALPHANUMERIC,
        32,
        "pplx- gsk_ r8_ bkua_ lin_api_ lin_oauth_ ntn_ pnu_ rdme_ ico- glc_ CLOJARS_ EZAK EZTK xai- csk- napi_",
        "napi_create_function",
    ),
    (
        _ALPHANUMERIC,
        40,
        "AGE-SECRET-KEY-1 packagist_ort_ packagist_uut_ vcp_ vca_ vck_ vci_ vcr_",
        "vcr_cassette_library_dir",
    ),
    (_BASE64, 15, "sntrys_ fo1_ fm1r_ fm1a_ fm2_", "sntrys_organization_auth"),
    (_WORD, 20, "sq0atp- sq0csp- sq0idp- GOCSPX- tvly- nvapi- pcsk_ tgp_v1_ sb_secret_", "nvapi-client-library"),
    (
        _WORD,
        20,
        "figd_ figu_ tskey-auth- tskey-api- tskey-client- glpat- gldt- glrt- glptt-",
        "figu_re_caption_position",
    ),
    (_WORD, 20, "glcbt- glffct- glft- glimt- glagent- gloas- glsoat-", "glft-render-pipeline-state"),
    (
        _WORD,
        30,
        "PMAK- pat-na1- pat-na2- pat-eu1- NRII- duffel_live_ duffel_test_ fio-u- HRKU-AA CFPAT- tk-us- dnkey-",
        "duffel_test_helper",
    ),
    (
        _WORD,
        30,
        "AIza pypi- access-sandbox- access-production- FLWSECK_TEST- FLWSECK-",
        "pypi-publish-with-trusted-publishing-action",
    ),
)
DOTTED_PREFIXES: tuple[PrefixRow, ...] = (
    (
        _DOTTED,
        30,
        "pscale_tkn_ pscale_pw_ pscale_oauth_ tfp_ hvs. hvb. hvr. dt0c01. AQ.A sk.eyJ",
        "hvs.read_secret_version",
    ),
    (_DOTTED, 30, "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", "dp.audit.enabled"),
)


def _list_prefixes(rows: tuple[PrefixRow, ...]) -> tuple[str, ...]:
    return tuple([prefix for _, _, prefixes, _ in rows for prefix in prefixes.split()])


def _join_prefixes(rows: tuple[PrefixRow, ...]) -> str:
    shapes = []
    for signs, min_count, prefixes, _ in rows:
        alternatives = "|".join(prefixes.replace(".", r"\.").split())
        shape = f"(?:{alternatives}){signs}{{{min_count},}}"
        if signs == _BASE64:
            shape += f"(?:%[23][0-9A-F]{signs}*+)*+"  # in a URL its signs are percent-encoded
        shapes.append(shape)
    return f"(?:{'|'.join(shapes)})"


def _make_prefix_examples(rows: tuple[PrefixRow, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(
        [
            ("", prefix + PREFIX_SAMPLES[signs][:min_count])
            for signs, min_count, prefixes, _ in rows
            for prefix in prefixes.split()
        ]
    )


def _build_option_pattern(command: str, option: str, value_prefix: str = "") -> str:
    """Return a pattern for a command, its other words up to `;`, `|` or `&`, then the option and its value.

    The value is quoted or one word; in JSON text a quote has backslashes. `value_prefix` precedes the secret inside the
    value.
    """
    value = (
        rf"""(?:\\{{0,8}}'{value_prefix}(?P<single>[^'\s\\][^'\r\n\\]{{0,200}})"""
        rf"""|\\{{0,8}}"{value_prefix}(?P<double>[^"\s\\][^"\r\n\\]{{0,200}})"""
        rf"""|{value_prefix}(?P<word>[^\s"'\\;&|<>][^\s"'\\]{{1,200}}))"""
    )
    return rf"(?:{command})(?:[ \t]{{1,8}}(?!(?-i:{option})|[|;&])\S+){{0,40}}+[ \t]{{1,8}}(?-i:{option}){value}"


RULES = (
    SecretRule(
        "private-key",
        ("-----BEGIN",),
        r"-----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY[A-Z ]{0,10}-----[ \t]{0,4}"
        r"(?=(?:[\r\n]|\\{1,8}[nr])[^A-Za-z]{0,24}(?:[A-Za-z0-9+/=]{16}|Proc-|Version|Comment)|[A-Za-z0-9+/]{16})"
        r"[^-]*+(?:-(?!----END)[^-]*+)*+(?:-----END[^-\n]{0,60}-----)?",
        (
            (
                "",
                f"-----BEGIN RSA PRIVATE{' '}KEY-----\nMII{_SAMPLE_KEY}\n{_SAMPLE_KEY}\n-----END RSA PRIVATE{' '}KEY-----",
            ),
            ("", f"-----BEGIN OPENSSH PRIVATE{' '}KEY-----\nb3Bl{_SAMPLE_KEY}\n{_SAMPLE_KEY[:20]}"),
        ),
        ('if line.startswith("-----BEGIN RSA PRIVATE KEY-----"):', "-----BEGIN PUBLIC KEY-----"),
    ),
    SecretRule(
        "anthropic",
        ("sk-ant-",),
        r"sk-ant-[\w-]{16,}",
        (("", "sk-ant-" + "api03-" + _SAMPLE_KEY),),
        ("the key starts with sk-ant-",),
        "unbroken",
    ),
    SecretRule(
        "openai",
        ("sk-",),
        r"sk-(?:(?:proj|svcacct|admin|None|or-v1|lf)-)?(?P<secret>[\w-]{20,})",
        (("", "sk-" + _SAMPLE_KEY), ("", "sk-" + "proj-" + _SAMPLE_KEY)),
        ("class='sk-circle-fade-dot-animation'", "task-runner-configuration-for-ci"),
        *("random unbroken", "_.-"),
    ),
    SecretRule(
        "github",
        ("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_"),
        r"(?:gh[posur]_[A-Za-z0-9]{20,}|github_pat_\w{22,})",
        (
            ("", "ghp_" + _SAMPLE_KEY[:36]),
            ("", "ghs_" + _SAMPLE_KEY[:36]),
            ("", "github_pat_" + _SAMPLE_KEY[:22] + "_" + _SAMPLE_KEY),
        ),
        ("tokens begin with ghp_ or ghs_",),
        "unbroken",
    ),
    SecretRule(
        "aws-id",
        ("AKIA", "ASIA"),
        r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        (("", "AKIA" + "J7Q2M4X9T1Z8B6C3"),),
        ("ids begin with AKIA", "ASIAPACIFIC_REGION"),
        *("unbroken", ""),
    ),
    SecretRule(
        "google-oauth",
        ("ya29.",),
        r"ya29\.[\w-]{20,}",
        (("", "ya29." + "a0" + _SAMPLE_KEY),),
        ("ya29.example",),
    ),
    SecretRule(
        "slack",
        ("xox", "xapp-"),
        r"x(?:ox[a-z]|app)-[\w-]{10,}",
        (("", "xoxb-" + "123456-" + _SAMPLE_KEY),),
        ("xoxb- is a bot token",),
        *("unbroken", ""),
    ),
    SecretRule(
        "webhook",
        ("hooks.slack.com/", "/api/webhooks/"),
        r"(?:hooks\.slack\.com/[a-z]{1,20}|/api/webhooks)/(?P<secret>[A-Za-z0-9/_-]{20,})",
        (("https://hooks.slack.com/services/", "T0A1B2C3D/B0A1B2C3D/" + _SAMPLE_KEY[:24]),),
        ("POST /api/webhooks/stripe",),
    ),
    SecretRule(
        "stripe",
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
        r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,})",
        (("", "sk_live_" + _SAMPLE_KEY[:24]), ("", "rk_live_" + _SAMPLE_KEY[:24]), ("", "whsec_" + _SAMPLE_KEY[:32])),
        ('startsWith("sk_live_")',),
        *("unbroken", ""),
    ),
    SecretRule(
        "twilio",
        ("SK",),
        r"SK[0-9a-f]{32}(?![A-Za-z0-9])",
        (("", "SK" + _SAMPLE_HEX[:32]),),
        ("SKIP_SLOW_TESTS_IN_CI=1",),
        *("unbroken", ""),
    ),
    SecretRule(
        "sendgrid",
        ("SG.",),
        r"SG\.[\w-]{16,64}\.[\w-]{16,}",
        (("", f"SG.{_SAMPLE_KEY[:22]}.{_SAMPLE_KEY[:43]}"),),
        ("MSG.format(name)",),
        not_after="",
    ),
    SecretRule(
        "mailgun",
        ("key-",),
        r"key-[0-9a-f]{32}(?![A-Za-z0-9])",
        (("", "key-" + _SAMPLE_HEX[:32]),),
        ("key-value-store-with-expiry",),
        *("unbroken", "_.-"),
    ),
    SecretRule(
        "huggingface",
        ("hf_",),
        r"hf_[A-Za-z0-9]{34,}",
        (("", "hf_" + "aBcDeFgHiJkLmNoPqR" * 2),),
        ("hf_hub_download_with_progress_bar_enabled",),
        *("unbroken", "_.-"),
    ),
    SecretRule(
        "airtable",
        ("pat",),
        r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}(?![A-Za-z0-9])",
        (("", f"pat{_SAMPLE_KEY[:14]}.{_SAMPLE_HEX}"),),
        ("pathologicalInput.length", "patternMatchingExp.test"),
        *("unbroken", "_.-"),
    ),
    SecretRule(
        "asana",
        ("0/", "1/", "2/"),
        r"[012]/[0-9]{13,20}(?:/[0-9]{13,20})?:[0-9a-f]{32}(?![A-Za-z0-9])",
        (
            ("", f"1/1204567890123456:{_SAMPLE_HEX[:32]}"),
            ("", f"2/1204567890123456/1204567890123457:{_SAMPLE_HEX[:32]}"),
        ),
        ("page 1/1 of 2/1", "https://app.asana.com/0/1204567890123456/1204567890123457"),
        *("unbroken", "_.-"),
    ),
    # The first part is the account's number in base64, so it begins like base64 of digits.
    SecretRule(
        "discord",
        ("MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),
        r"(?:[MN][DTjz]|O[DT])[AEIMQUYcgk][\w-]{20,28}\.[\w-]{6}\.[\w-]{27,}",
        (("", f"MTE4{_SAMPLE_KEY[:22]}.Gh7x_k.{_SAMPLE_KEY[:38]}"),),
        ("NTFS.volume.information", "ODBCConnectionString.parse"),
        *("unbroken", "_.-"),
    ),
    SecretRule(
        "telegram",
        (":AA",),
        r":(?P<secret>AA[\w-]{33})(?![\w-])",
        (("8123456789:", "AA" + ("0f1e2d3c4b5a69-Gh" * 2)[:33]),),
        ("mac 00:AA:BB:CC:DD:EE", "scope:AAbbreviation"),
        "random",
    ),
    SecretRule(
        "azure-client",
        ("Q~",),
        r"[\w~.-]{3}[0-9]Q~[\w~.-]{31,34}",
        (("", f"a1B8Q~{_SAMPLE_KEY[:34]}"),),
        ("IQ~about 120",),
        lead_length=4,
    ),
    SecretRule(
        "terraform",
        (".atlasv1.",),
        r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}",
        (("", f"{_SAMPLE_KEY[:14]}.atlasv1.{_SAMPLE_KEY}{_SAMPLE_KEY[:20]}"),),
        ("tokens hold .atlasv1. in the middle",),
        lead_length=14,
    ),
    SecretRule(
        *("prefixed", _list_prefixes(UNBROKEN_PREFIXES), _join_prefixes(UNBROKEN_PREFIXES)),
        *(_make_prefix_examples(UNBROKEN_PREFIXES), tuple([row[3] for row in UNBROKEN_PREFIXES])),
        *("random unbroken", "_.-"),
    ),
    SecretRule(
        *("prefixed-dotted", _list_prefixes(DOTTED_PREFIXES), _join_prefixes(DOTTED_PREFIXES)),
        *(_make_prefix_examples(DOTTED_PREFIXES), tuple([row[3] for row in DOTTED_PREFIXES])),
        *("random", "_.-"),
    ),
    SecretRule(
        "azure",
        ("accountkey=", "sharedaccesskey=", "sig="),
        r"[a-z]+=(?P<secret>[A-Za-z0-9+/%=]{30,})",
        (("AccountKey=", _SAMPLE_KEY + _SAMPLE_KEY[:38] + "=="), ("&sig=", _SAMPLE_KEY[:40] + "%3D")),
        ("?sig=abc", "sig=inspect.signature(function)"),
        *("folded", ""),
    ),
    SecretRule(
        *("jwt", ("eyJ",), r"eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]{10,}"),
        (("", "eyJ" + _SAMPLE_KEY + ".eyJ" + _SAMPLE_KEY + "." + _SAMPLE_KEY),),
        ("a JWT begins with eyJ", "keyJoin.eyJoin.value"),
        *("", "_-"),
    ),
    SecretRule(
        "url-password",
        ("://",),
        r"://(?:[^\s/:@\[\"'<>\\]{0,200}:(?P<secret>[^\s/\"'<>\\]{1,300})@|(?P<user>[\w-]{20,200})@)",
        (("postgres://ada:", "hunt-er2!" + "@db.local"), ("https://", _SAMPLE_KEY[:40] + "@git.local")),
        (
            "postgres://postgres:postgres@localhost:5432/test",
            "postgres://${USER}:${PASSWORD}@db/app",
            "git@host:a/b.git",
        ),
        also_required=("@",),
    ),
    SecretRule(
        "authorization",
        ("authorization",),
        r"authorization[\"'\\]{0,10}\s{0,4}[:=,]\s{0,4}[\"'`\\]{0,10}"
        r"(?:basic|bearer|token|digest|apikey|negotiate)\s{1,4}(?P<secret>[^\s\"'`\\,]{4,})",
        (("Authorization: Basic ", "dXNlcjpwYXNz"), ("Authorization: Bearer ", "plainopaque1")),
        ("Authorization: Basic <credentials>", "Authorization: Bearer $TOKEN", "Authorization: Bearer {token}"),
        "folded",
    ),
    SecretRule(
        "bearer",
        ("bearer",),
        r"bearer(?:\s|%20|\+){1,4}(?P<secret>[A-Za-z0-9._~+/=-]{12,})",
        (("Bearer ", _SAMPLE_KEY[:24]),),
        ("a bearer authentication scheme", "Bearer realm=example"),
        *("folded random", "_"),
    ),
    SecretRule(
        "cookie",
        ("cookie",),
        r"cookie[\"'\\]{0,10}\s{0,4}:\s{0,4}[\"'\\]{0,10}"
        r"(?P<secret>[^\s=;,:\"'{}()\\]{1,100}=[^\s;\"'\\]{1,4096}+(?:;[^\r\n\"'\\]*+)?)",
        (
            ("Cookie: ", "sid=" + _SAMPLE_KEY[:12] + "; theme=dark"),
            ("Set-Cookie: ", "sid=" + _SAMPLE_KEY[:12] + "; Path=/"),
        ),
        ("cookie: SessionCookie", "const cookie = parse(header)"),
        *("folded", None, 0, ("=",)),
    ),
    # Commands that take a password in a short option or as an argument.
    SecretRule(
        "login",
        ("mysql", "mariadb"),
        _build_option_pattern(r"(?:mysql|mariadb)[a-z-]{0,12}", "-p"),
        (("mysql -u root -p", "hunt-er2"), ("mysqldump -uroot -p'", "hunt er2")),
        ("mysql -u root -p shop", "mysql -uroot -p", "mysqladmin --port 3306 ping | grep -pool"),
        "folded",
        also_required=(" -p",),
    ),
    SecretRule(
        "login",
        ("redis-cli",),
        _build_option_pattern("redis-cli", r"(?:-a|--pass)[ \t]{1,4}"),
        (("redis-cli -h cache -a ", "hunt-er2"),),
        ("redis-cli -h cache ping", "redis-cli -a $REDIS_AUTH ping"),
        "folded",
        also_required=(" -a", " --pass"),
    ),
    SecretRule(
        "login",
        ("mongo",),
        _build_option_pattern("mongo[a-z]{0,8}", r"-p[ \t]{0,4}"),
        (("mongosh --host h -u ada -p ", "hunt-er2"),),
        ("mongosh --port 27017", "mongosh -u ada --password"),
        "folded",
        also_required=(" -p",),
    ),
    SecretRule(
        "login",
        ("sshpass",),
        _build_option_pattern("sshpass", r"-p[ \t]{0,4}"),
        (("sshpass -p ", "hunt-er2"), ("sshpass -p", "hunt-er2")),
        ("sshpass -f file ssh h", "sshpass -e ssh -p 22 h"),
        "folded",
        also_required=(" -p",),
    ),
    SecretRule(
        "login",
        (" login",),
        _build_option_pattern(r"\ login", r"-p[ \t]{1,4}(?![0-9]{1,5}\b)"),
        (("docker login -u ada -p ", "hunt-er2"), ("az login -u ada -p '", "hunt er2")),
        ("docker login -u ada --password-stdin", "docker run login -p 8080:80", "ssh login -p 2222"),
        "folded",
        also_required=(" -p",),
    ),
    SecretRule(
        "login",
        ("ldap",),
        _build_option_pattern("ldap[a-z]{1,12}", r"-w[ \t]{1,4}"),
        (("ldapsearch -x -D cn=ada -w ", "hunt-er2"),),
        ("ldapsearch -x -W -b dc=a", "see ldap.md for -w"),
        "folded",
        also_required=(" -w",),
    ),
    SecretRule(
        "login",
        ("curl",),
        _build_option_pattern("curl", r"(?:-u|--user|--proxy-user|-U)[ \t=]{0,4}", r"[^\s:'\"\\]{1,100}:"),
        (("curl -s -u ada:", "hunt-er2"), ("curl --user 'ada:", "hunt-er2"), ("curl -uada:", "hunt-er2")),
        ("curl -s --url https://a.example:8080/", "curl -u $USER:$PASS http://a", "curl -u ada http://a:80"),
        "folded",
        also_required=(" -u", " --user", "--proxy-user"),
    ),
    SecretRule(
        "login",
        ("curl",),
        _build_option_pattern("curl", r"(?:-b|--cookie)[ \t=]{0,4}", r"[\w.-]{1,100}="),
        (("curl -b 'session=", _SAMPLE_KEY[:12]), ("curl --cookie session=", _SAMPLE_KEY[:12])),
        ("curl -b cookies.txt -c cookies.txt http://a",),
        "folded",
        also_required=(" -b", " --cookie"),
    ),
    SecretRule(
        "login",
        ("smbclient", "htpasswd", "identified by", "machine ", "default login "),
        r"(?:smbclient(?:[ \t]{1,8}(?!(?-i:-U)|[|;&])\S+){0,40}+[ \t]{1,8}(?-i:-U)[ \t]{0,4}\\{0,8}[\"']?[^\s%\"']{1,100}%(?P<smb>[^\s\"'\\]+)"
        r"|htpasswd[ \t]{1,4}-[a-zA-Z0-9]{0,4}b[a-zA-Z0-9]{0,4}[ \t]{1,4}\S{1,200}[ \t]{1,4}\S{1,100}[ \t]{1,4}[\"']?(?P<htpasswd>[^\s\"'\\]+)"
        r"|(?:machine\s{1,8}\S{1,200}|default)\s{1,8}login\s{1,8}\S{1,100}\s{1,8}password\s{1,8}(?P<netrc>\S+)"
        r"|identified\ by\s{1,4}['\"](?P<sql>[^\s\"'\\]+)(?=['\"]))",
        (
            ("smbclient //h/share -U ada%", "hunt-er2"),
            ("htpasswd -bc .htpasswd ada ", "hunt-er2"),
            ("machine h login ada password ", "hunt-er2"),
        ),
        ("htpasswd -c .htpasswd ada", "login page password reset"),
        "folded",
    ),
    # A line of .pgpass: host, port, database, user, password.
    SecretRule(
        "login",
        (":5432:", ":*:"),
        r":(?:5432|\*):[\w*.-]{1,64}:[\w*.-]{1,64}:(?P<secret>[^\s\"'\\]{4,200})(?=\s|\\|$)",
        (("db.local:5432:shop:ada:", "hunt-er2"),),
        ("ports: 5432:5432", "localhost:5432:shop", "0.0.0.0:5432:5432/tcp"),
    ),
    SecretRule(
        "said",
        ("password", "passwd", "passphrase", "passcode", " pass ", " pwd ", "secret", "token", " key "),
        r"[ ]?(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|key)(?:[ ][\w'-]{1,30}){0,5}?[ ]"
        r"(?:(?:is|was|to|as)(?:[ ]now)?:?[ ]\\{0,8}(?P<quote>[\"'`])(?P<quoted>[^\s\"'`\\]{6,200}(?=\\{0,8}(?P=quote)))"
        r"|is(?:[ ]now)?:?[ ](?P<secret>[^\s\"'`\\]{5,}[^\s\"'`\\.,;:!?)*]))",
        (("the db password is ", "S3cr3t!pass" + "99"), ("the API key for the harbour is: ", _SAMPLE_KEY[:20])),
        (
            "the token is expired.",
            "the secret is base64-encoded",
            "set the password to 'required'",
            "the token is 'expired'",
        ),
        "folded spoken",
        also_required=(" is ", " is: ", " was ", " to ", " as "),
    ),
)

# Names that promise a secret, such as `db_password`, `apiKey` and `SECRET_KEY_BASE`: a prefix (for some), an ending and a
# suffix. Case and separators between the parts do not matter.
#
# After a strong name every value is redacted that is not code, a template or a placeholder. After a weak name only a
# value is redacted that does not read like words: a token may be a parser's token.
STRONG_ENDINGS = ("password", "passwords", "passwd", "passphrase", "passcode", "pass", "pwd", "secret", "secrets")
WEAK_ENDINGS = ("token", "credential", "credentials", "auth", "authorization", "authtoken", "key")
# Only as a whole word or the end of a name: `smtp_pass` and `smtpPass`, but not `bypass`.
SHORT_ENDINGS = ("pass", "pwd", "auth")
# A key is a secret only after one of these: a cache key is not.
KEY_NAME_PREFIXES = (
    *("api", "access", "secret", "private", "master", "encryption", "encrypt", "signing", "auth", "session", "account"),
    *("app", "application", "consumer", "deploy", "service", "shared", "subscription", "license", "client", "admin"),
    *("root", "crypto", "hmac", "jwt", "aes", "storage", "ssh", "rsa", "recovery", "decryption", "sharedaccess"),
)
NAME_SUFFIXES = (
    *(
        "",
        "base",
        "value",
        "string",
        "text",
        "prod",
        "production",
        "dev",
        "development",
        "staging",
        "test",
        "old",
        "new",
    ),
    *("current", "primary", "secondary", "default", "b64", "base64", "hex", "live", "plain", "raw", "backup", "main"),
)
# The literals that are searched to find names; every ending contains one.
NAME_STEMS = ("pass", "pwd", "secret", "token", "credential", "auth", "key")

# Values that are never secrets: types, well-known defaults, words of code.
PLAIN_VALUES = frozenset(
    (
        "str string int integer number bool boolean bytes any unknown never void null nil none undefined true false yes no "
        "on off text varchar char uuid float double object array list dict map optional option options required date self "
        "result auto var let const secretstr secret password passwd pass passphrase token key apikey user admin root test "
        "foo bar baz enabled disabled hidden masked empty missing invalid valid changeme change-me change_me basic bearer "
        "credentials postgres this unset default value new await is or and flag to in was for with must the a an as from "
        "not if when argument parameter instead of env file path prompt stdin expected unexpected failed wrong incorrect "
        "same-origin include omit expired revoked refresh access anonymous confirmed sensitive deprecated present absent "
        "nullable buffer readonly private public static final class struct interface type function return async import "
        "username email name input output field label title description placeholder example sample dummy redacted todo "
        "fixme tbd n/a random generated encrypted hashed plaintext plain bcrypt argon2 scrypt sha256 hmac jwt oauth oauth2 "
        "secretkey public_key id ids error errors data json yaml xml html http https localhost request response session"
    ).split()
)
# A value that contains one of these is a placeholder.
PLACEHOLDER_PARTS = (
    *("xxxx", "....", "****", "your-", "your_", "your ", "yourpassword", "placeholder", "example", "redacted", "dummy"),
    *("…", "changeme", "change-me", "change_me", "replace-me", "replace_me", "replaceme", "insert-", "not-a-real"),
)
# A value with one of these words is a sentence about a password, not a password.
SENTENCE_WORDS = frozenset(
    "a an the is are was must should may can be not no at for to of in on or and your please enter invalid required "
    "have has does do this that it least characters by from if when missing".split()
)
# Words that mark an identifier as the name of a secret: anywhere in it, and only as a whole word.
SECRET_NAME_PARTS = ("password", "passwd", "passphrase", "secret", "token", "credential")
SECRET_NAME_WORDS = frozenset(("pass", "pwd", "key", "keys", "auth"))
# Calls that return their literal argument: `String::from("…")`.
WRAPPING_CALLS = (
    "from",
    "some",
    "secretstr",
    "secret",
    "secretstring",
    "str",
    "string",
    "sensitive",
    "ok",
    "new",
    "bytes",
)

# Must be redacted after a name: the text before, the secret, the text after.
NAME_EXAMPLES = (
    ("password=", "hunter2", ""),
    ("DB_PASSWORD=", "hunter2-Zq81-secret", "\n"),
    ("password=", "CorrectHorseBattery", ""),
    ("db_password=", "AbCdEfGhIjKlMnOp", "\n"),
    ("RAILS_MASTER_KEY=", _SAMPLE_HEX[:32], "\n"),
    ("SECRET_KEY_BASE=", _SAMPLE_HEX * 2, "\n"),
    ("pass: '", "Wq7!xK2$mPz9", "'"),
    ('"api_key": "', _SAMPLE_KEY[:20], '"'),
    ('"auth": "', "YWRhOmh1bnQtZXIyLXdpdGgtc2FsdA==", '"'),
    ("aws_secret_access_key=", _SAMPLE_KEY[:40], ""),
    ("password: |\n  ", "Zx9cVb8n-Mq2w", "\nuser: ada"),
    ("password: >-\n    ", "swordfish and chips", "\n"),
    ("- name: DB_PASSWORD\n  value: ", "swordfish", "\n"),
    ('<add key="ApiKey" value="', _SAMPLE_KEY[:20], '" />'),
    ('variable "db_password" {\n  default = "', "swordfish", '"\n}'),
    ("--db-password ", "swordfish", " --verbose"),
    ("ENV DB_PASSWORD ", "swordfish", "\n"),
    ('define("DB_PASSWORD", "', "swordfish", '");'),
    ("process.env.JWT_SECRET || '", "swordfish-9", "'"),
    ('const DbPassword string = "', "swordfish", '"'),
    ('password: String::from("', "swordfish", '"),'),
    ("- **Password:** `", "swordfish", "`"),
    ('{\\"password\\": \\"', "sword-fish-7", '\\"}'),
    ('{\\\\\\"password\\\\\\": \\\\\\"', "sword-fish-7", '\\\\\\"}'),
    ("log in with the password '", "swordfish-9", "' please"),
)
# Must stay after a name.
NAME_COUNTER_EXAMPLES = (
    "password: str = None",
    "def login(user: str, password: str) -> Token:",
    "password = getpass.getpass()",
    "password = os.environ['DB_PASSWORD']",
    "password=${DB_PASSWORD}",
    "password=$DB_PASSWORD",
    'password = "{{ vault_password }}"',
    "password: <your-password>",
    "API_KEY=your-api-key-here",
    "DB_PASSWORD=changeme",
    "token = parser.next_token()",
    'token: "identifier"',
    "connect(user=user, password=password)",
    "const password = req.body.password;",
    "password: hashedPassword,",
    "cache_key = build_key(user)",
    "primary_key: true",
    "--- PASS: TestLogin (0.00s)",
    "bypass: everything",
    "PWD=/home/dev/src",
    "max_tokens: 4096",
    'raise ValueError("password must have at least 8 characters")',
)
