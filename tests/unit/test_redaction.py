"""What is masked, what is left alone, and that time grows with the text and no faster."""

from __future__ import annotations

import base64

import pytest

from measuring import measured
from zapomni_core.shared.redaction import Redactor
from zapomni_core.shared.redaction_rules import CONTEXTS, SERVICES, SHAPES, TOKENS

KEY = b"k" * 32
PAT = "gh" + "p_" + "a1B2c3D4e5F6" * 3
OTHER = "gh" + "p_" + "z9Y8x7W6v5U4" * 3


def redact(text: str, **environ: str) -> str:
    return Redactor(environ, KEY).redact(text)[0]


def test_two_mentions_of_one_secret_stay_linkable_and_different_ones_differ():
    text, count = Redactor({}, KEY).redact(f"first {PAT}, again {PAT}, then {OTHER}")
    first, again, then = (word.strip(",") for word in text.split() if "REDACTED" in word)
    assert count == 3
    assert first == again != then
    assert first.startswith("[REDACTED:github-pat:")
    assert Redactor({}, b"other key").redact(PAT)[0] != first


def test_what_is_masked_is_not_masked_again():
    for text in (f"token={PAT}", f"Authorization: Bearer {PAT}", f"https://u:{PAT}@example.com"):
        once = redact(text)
        assert PAT not in once
        assert Redactor({}, KEY).redact(once) == (once, 0)


@pytest.mark.parametrize(
    "text",
    [
        "s3://aws_access_key_id:aws_secret_access_key@bucket/key",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        '"integrity": "sha512-' + "aB3d" * 21 + 'aa=="',
        "sha256:" + "0a1b2c3d" * 8,
        "hash = { sha256 = '" + "0a1b2c3d" * 8 + "' }",
        "password: ${{ secrets.DEPLOY_PASSWORD }}",
        "api_key: ${API_KEY}",
        "PASSWORD=$DB_PASSWORD",
        "def login(user: str, password: str) -> None:",
        'key = os.environ["API_KEY"]',
        "const apiKey = process.env.API_KEY",
        "apiKey: import.meta.env.VITE_KEY",
        "No API key in the build; set the token in the settings.",
        "The password must have at least 8 characters.",
        "password=password",
        "--password-file /run/secrets/db",
        "token = get_token(request)",
        "tokens_used: 12345, max_tokens=4096",
        "secret_name = 'projects/app/db-password'",
        "postgresql://localhost:5432/app",
        "git@github.com:org/app.git",
        "ssh://git@host:22/app",
        "http://example.com:8080/a@b",
        "ssh-ed25519 " + "AAAAC3NzaC1lZDI1NTE5AAAA" + "aB3d" * 11 + " me@host",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "password = getpass.getpass()",
        "x-api-key: <your key>",
        "Authorization: Bearer <token>",
        "task-management-system-with-a-long-name-2024",
        "/home/me/projects/some-very-long-folder-name/with/many/parts/file.py",
        "monkey: banana2banana",
        "password = input()",
        "password = read_password(prompt)",
        "password = settings.password",
        "password = new_password",
        "password: str | None = None",
        "password: SecretStr",
        "connect(user=name, password=pw)",
        'password = "<password>"',
        'password = "{{ vault_password }}"',
        'password = os.environ["DB_PASSWORD"]',
        'password = f"{user}{salt}"',
        "password: '%s'",
        "--password PASSWORD",
        "use --password to set it, or --token-file",
        "--password <secret>",
        "mysql --password",
        "--- PASS: TestLogin2 (0.00s)",
        "bypass: true2",
        "compass = north2east",
        'fields = ["user", "password", "email"]',
        'PASSWORD_FIELD = "password_hash"',
        "the process is identified by its number2",
        "key: value2",
        "cache_key = 'user:profile:v2'",
        "| password | string | yes |",
        "label.password=Password",
        "設定のkeyは値です",
        "データbase64のkey: 値を返します",
        "pytest tests/test_zip.py::test_read_format_7zip_packinfo_digests",
    ],
)
def test_text_without_a_secret_stays_as_it_is(text):
    assert Redactor({}, KEY).redact(text) == (text, 0)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("PASSWORD=correcthorse", "correcthorse"),
        ('{"api_key": "abcD1234efgh"}', "abcD1234efgh"),
        ('"{\\"password\\": \\"s3cr3t-Val\\"}"', "s3cr3t-Val"),
        ("password: hunter2hunter2", "hunter2hunter2"),
        ("git clone https://bob:hunter2@example.com/x", "hunter2"),
        ("mongodb+srv://app:p%40ss9@cluster.example.com", "p%40ss9"),
        ("curl -u bob:swordfish1 https://example.com", "swordfish1"),
        ("mysql -uroot -ps3cret99 db", "s3cret99"),
        ("psql 'password=tiger123 host=db'", "tiger123"),
        ("tool --api-key=abc123def456", "abc123def456"),
        ("CREATE USER a IDENTIFIED BY 'tiger12';", "tiger12"),
        ("Set-Cookie: sid=a1b2c3d4e5f6a7b8; Path=/", "a1b2c3d4e5f6a7b8"),
        ("openssl rsa -passin pass:tiger12 -in k", "tiger12"),
        ("root:$6$saltsalt$" + "aB3dEf7h.K" * 8 + ":19000:0", "aB3dEf7h"),
        (f"zero\u200bwidth {PAT[:10]}\u200b{PAT[10:]}", PAT[12:]),
        (f"colour {PAT[:10]}\x1b[1m{PAT[10:]}\x1b[0m", PAT[12:]),
        (base64.b64encode(f"export TOKEN={PAT}\n".encode()).decode(), "Z2hwX"),
        ('password = "swordfish"', "swordfish"),
        ("mytool --password swordfish --verbose", "swordfish"),
        ("db:\n  password: swordfish\n  port: 5432", "swordfish"),
        ("spring.datasource.password=swordfish", "swordfish"),
        ('{"password": "swordfish"}', "swordfish"),
        ('$password = "swordfish";', "swordfish"),
        ('if password == "swordfish":', "swordfish"),
        ("token=YWJjZGVmZ2hpamtsbW5vcA==", "YWJjZGVm"),
        ("secret: Zm9vYmFyYmF6cXV4cXV1eA=", "Zm9vYmFy"),
        ("pass = 'tiger12'", "tiger12"),
        ("pw: tiger12!", "tiger12"),
        ("Db_Pass=tiger12", "tiger12"),
        ("SMTP_PASS=tigers", "tigers"),
        ("smtpPass: 'tigers'", "tigers"),
        ("PASSWD=tiger12", "tiger12"),
        ("管理者のpw: tiger12!", "tiger12"),
        ("合言葉のpass = 'tiger12'", "tiger12"),
        ("CREATE USER a IDENTIFIED BY tiger12;", "tiger12"),
        ("alter user a identified by tigers", "tigers"),
        (f"artifact_{PAT}", PAT[12:]),
        (f"{PAT}_old", PAT[12:]),
        *((f"{PAT[:12]}{mark}{PAT[12:]}", PAT[14:]) for mark in "\u200e\ufe0f\u034f\u2066\u180e"),
        (f"id:bob pw:tiger12! again tiger12! and {PAT}", "tiger12!"),
        (f'{{"next": "a\\u0026{PAT}"}}', PAT[12:]),
    ],
)
def test_a_secret_is_masked_where_it_stands(text, secret):
    redacted, count = Redactor({}, KEY).redact(text)
    assert secret not in redacted
    assert count >= 1


def test_an_unterminated_private_key_is_secret_to_the_end():
    head = "-----BEGIN RSA " + "PRIVATE KEY-----"
    redacted = redact(f"before\n{head}\n" + "MIIEowIBAAKCAQEA\n" * 20)
    assert redacted.startswith("before\n[REDACTED:private-key:")
    assert "MIIE" not in redacted


def test_the_tail_of_a_private_key_is_secret_too():
    end = "-----END RSA " + "PRIVATE KEY-----"
    lines = ["aB3dEf7hKlMnOpQr" * 4] * 5
    redacted = redact("total 3\n" + "\n".join(lines) + f"\n{end}\nafter")
    assert redacted.startswith("total 3\n[REDACTED:private-key:")
    assert redacted.endswith("]\nafter")
    assert "aB3dEf7h" not in redact("\n".join(f"+{line}" for line in [*lines, end]))


@pytest.mark.parametrize("width", [64, 76])
def test_base64_broken_into_lines_is_decoded(width):
    text = f"# settings\nexport GITHUB={PAT}\nexport HOME=/home/me\nexport LANG=C.UTF-8\n" * 2
    encoded = base64.b64encode(text.encode()).decode()
    block = "\n".join(encoded[at : at + width] for at in range(0, len(encoded), width))
    redacted = redact(f"the file:\n{block}\nDone")
    assert redacted.startswith("the file:\n[REDACTED:base64:")
    assert encoded[:20] not in redacted
    assert encoded[-20:] not in redacted


def test_what_is_found_is_masked_and_everything_else_stays():
    text = f"naïve ❤️ \x1b[31m{PAT[:9]}\u200b{PAT[9:]}\x1b[0m\r\npassword = 'swordfish'\r\n"
    redactor = Redactor({}, KEY)
    spans = redactor.find(text)
    assert [kind for _, _, kind in spans] == ["github-pat", "password"]
    masked = redactor.mask(text, spans)
    assert masked.startswith("naïve ❤️ \x1b[31m[REDACTED:github-pat:")
    assert masked.endswith("]'\r\n")
    assert "]\x1b[0m\r\npassword = '[REDACTED:password:" in masked


def test_a_mask_in_place_moves_nothing():
    key = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + "aB3dEf7hKlMnOpQr\n" * 3
    text = f"a = '{PAT}'\nb = 'c'  # password: swordfish1\nkey = {key}"
    redactor = Redactor({}, KEY)
    masked = redactor.mask_in_place(text, redactor.find(text))
    assert len(masked) == len(text)
    assert [len(line) for line in masked.split("\n")] == [len(line) for line in text.split("\n")]
    assert "swordfish1" not in masked
    assert "aB3dEf7h" not in masked
    assert masked.startswith("a = '[REDACTED:github-pat:")


def test_values_of_secret_looking_variables_are_masked_whatever_their_form():
    environ = {
        "APP_SECRET": "plain words here",
        "MY_KEY": "plain words",
        "SHORT_TOKEN": "abc",
        "DATABASE_DSN": "host=db user=app",
        "GOOGLE_CREDENTIALS_FILE": "/etc/keys/app.json",
        "TOKENIZERS_PARALLELISM": "disabled",
        "EDITOR": "ordinary-editor",
    }
    text = "plain words here, plain words, abc, host=db user=app, /etc/keys/app.json, disabled"
    redacted = redact(f"{text}, ordinary-editor", **environ)
    # The longest value first: a shorter one inside it must not leave its rest behind.
    assert "here" not in redacted
    assert redacted.count("[REDACTED:env:") == 3
    assert redacted.endswith("abc, " + redacted.split("abc, ")[1])
    for kept in ("abc", "/etc/keys/app.json", "disabled", "ordinary-editor"):
        assert kept in redacted


HARD = {
    "keywords": "password secret token api_key aws key- sk- ghp_ ",
    "assignments": "password= token: secret=' ",
    "pem": "-----BEGIN PRIVATE KEY-----\n",
    "pem starts": "-----BEGIN RSA -----BEGIN ",
    "url": "https://a:b:c:d:",
    "base64": "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXo",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.",
    "spaces": "password" + " " * 30,
    "quotes": "password='\"",
    "aws": "aws secret ",
    "one word": "aB3",
    "escapes": "\x1b[31",
    "mysql": "mysql -p- mysql ",
    "cookie": "cookie: a=b; ",
    "hex": "0123456789abcdef",
    "dots": "SG.aaaa.",
    "curl": " -u a:b --user c ",
    "nested": '\\"password\\":\\"',
    "names": "key=key:key=",
    "edges": "a_b-c.d/",
    "said": "password is token is ",
    "lines of base64": "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWZnaGlqa2xtbm9w\n",
    "ends of keys": "-----END RSA PRIVATE KEY-----\nabcdefgh\n",
    "services": "aws twilio heroku datadog ",
    "repeated": "password=tiger12! ",
}


@pytest.mark.parametrize("name", HARD)
def test_ten_times_the_text_takes_about_ten_times_the_work(name):
    redactor = Redactor({}, KEY)

    def cpu(size: int) -> float:
        text = (HARD[name] * (size // len(HARD[name]) + 1))[:size]
        best = float("inf")
        for _ in range(3):
            with measured() as work:
                redactor.redact(text)
            best = min(best, work.cpu_seconds)
        return best

    cpu(1000)  # Compiles the rules.
    # Quadratic work takes a hundred times as long in every run; noise does not reach forty in all.
    assert any(cpu(80_000) < 40 * max(cpu(8_000), 0.001) for _ in range(5))


def test_no_rule_is_slow_on_what_nearly_matches_it():
    redactor = Redactor({}, KEY)

    def cpu(text: str) -> float:
        with measured() as work:
            redactor.redact(text)
        return work.cpu_seconds

    beginnings = [word for _, words, _, _ in TOKENS for word in words.split()]
    keywords = [
        word for table in (SHAPES, SERVICES, CONTEXTS) for rule in table for word in rule[1]
    ]
    slow = []
    for number, word in enumerate(dict.fromkeys([*beginnings, *keywords])):
        pump = (word, f"{word}a1B-", f" {word}='x1 ")[number % 3]
        cpu(pump)  # Compiles the rules.
        # Four times the text: quadratic work takes sixteen times as long, and in every run.
        for _ in range(5):
            small, large = cpu(pump * (2_000 // len(pump))), cpu(pump * (8_000 // len(pump)))
            if large <= 12 * max(small, 0.004):
                break
        else:
            slow.append((pump, small, large))
    assert slow == []
