"""Secrets made up on the spot, kind by kind, and the places people leave them in.

Prefixes are joined from parts so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable

__all__ = ["CONTEXTS", "FORMATS", "IN_CONTEXT", "Dice"]

LOWER_HEX = "0123456789abcdef"
ALNUM = string.ascii_letters + string.digits
WORD = ALNUM + "_-"
UPPER32 = string.ascii_uppercase + "234567"
BASE36 = string.ascii_lowercase + string.digits


class Dice(random.Random):
    """Random text of an alphabet, always with a digit, a small and a capital letter if it can."""

    def text(self, alphabet: str, length: int) -> str:
        while True:
            made = "".join(self.choices(alphabet, k=length))
            wanted = [string.digits, string.ascii_lowercase, string.ascii_uppercase]
            if length < 12 or all(
                any(c in made for c in group) for group in wanted if set(group) <= set(alphabet)
            ):
                return (
                    made
                    if made[0] not in "-_" and made[-1] not in "-_"
                    else self.text(alphabet, length)
                )

    def hex(self, length: int) -> str:
        return self.text(LOWER_HEX, length)

    def uuid(self) -> str:
        return "-".join(self.hex(length) for length in (8, 4, 4, 4, 12))

    def jwt(self) -> str:
        head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=").decode()
        body = json.dumps({"sub": self.hex(12), "iat": self.randrange(10**9)}).encode()
        return (
            f"{head}.{base64.urlsafe_b64encode(body).rstrip(b'=').decode()}.{self.text(WORD, 43)}"
        )

    def pem(self, kind: str, cut: bool = False) -> str:
        lines = [self.text(ALNUM + "+/", 64) for _ in range(12)]
        label = f"{kind}PRIVATE" + " KEY"
        end = [] if cut else [f"-----END {label}-----"]
        return "\n".join([f"-----BEGIN {label}-----", *lines, *end])


# Kinds that can be told by their own shape, wherever they stand.
FORMATS: dict[str, Callable[[Dice], str]] = {
    "aws-access-key": lambda d: "AK" + "IA" + d.text(UPPER32, 16),
    "aws-session-key": lambda d: "AS" + "IA" + d.text(UPPER32, 16),
    "github-pat": lambda d: "gh" + "p_" + d.text(ALNUM, 36),
    "github-oauth": lambda d: "gh" + "o_" + d.text(ALNUM, 36),
    "github-server": lambda d: "gh" + "s_" + d.text(ALNUM, 36),
    "github-refresh": lambda d: "gh" + "r_" + d.text(ALNUM, 76),
    "github-fine": lambda d: "github" + "_pat_" + d.text(ALNUM, 22) + "_" + d.text(ALNUM, 59),
    "gitlab-pat": lambda d: "gl" + "pat-" + d.text(WORD, 20),
    "gitlab-runner": lambda d: "gl" + "rt-" + d.text(WORD, 20),
    "slack-bot": lambda d: (
        "xo" + f"xb-{d.randrange(10**11, 10**12)}-{d.randrange(10**12)}-" + d.text(ALNUM, 24)
    ),
    "slack-app": lambda d: (
        "xa" + f"pp-1-A{d.text(UPPER32, 10)}-{d.randrange(10**12, 10**13)}-" + d.hex(64)
    ),
    "slack-webhook": lambda d: (
        "https://hooks.slack"
        f".com/services/T{d.text(UPPER32, 9)}/B{d.text(UPPER32, 9)}/" + d.text(ALNUM, 24)
    ),
    "stripe-live": lambda d: "sk" + "_live_" + d.text(ALNUM, 24),
    "stripe-restricted": lambda d: "rk" + "_test_" + d.text(ALNUM, 99),
    "stripe-webhook": lambda d: "wh" + "sec_" + d.text(ALNUM, 32),
    "google-api": lambda d: "AI" + "za" + d.text(WORD, 35),
    "google-oauth-secret": lambda d: "GOC" + "SPX-" + d.text(WORD, 28),
    "google-access": lambda d: "ya" + "29." + d.text(WORD, 120),
    "openai-old": lambda d: "sk" + "-" + d.text(ALNUM, 20) + "T3Blbk" + "FJ" + d.text(ALNUM, 20),
    "openai-project": lambda d: "sk" + "-proj-" + d.text(WORD, 74),
    "anthropic": lambda d: "sk" + "-ant-api03-" + d.text(WORD, 93) + "AA",
    "openrouter": lambda d: "sk" + "-or-v1-" + d.hex(64),
    "huggingface": lambda d: "h" + "f_" + d.text(string.ascii_letters, 34),
    "groq": lambda d: "g" + "sk_" + d.text(ALNUM, 52),
    "replicate": lambda d: "r" + "8_" + d.text(ALNUM, 37),
    "npm": lambda d: "np" + "m_" + d.text(ALNUM, 36),
    "pypi": lambda d: "py" + "pi-AgEIcHlwaS5vcmc" + d.text(WORD, 120),
    "rubygems": lambda d: "rubygems" + "_" + d.hex(48),
    "docker": lambda d: "dckr" + "_pat_" + d.text(WORD, 27),
    "sendgrid": lambda d: "S" + "G." + d.text(WORD, 22) + "." + d.text(WORD, 43),
    "twilio": lambda d: "S" + "K" + d.hex(32),
    "mailgun": lambda d: "ke" + "y-" + d.hex(32),
    "mailchimp": lambda d: d.hex(32) + "-us" + str(d.randrange(1, 22)),
    "digitalocean": lambda d: "do" + "p_v1_" + d.hex(64),
    "azure-storage": lambda d: "AccountName=x;Account" + "Key=" + d.text(ALNUM + "+/", 86) + "==",
    "azure-sas": lambda d: (
        "https://x.blob.core.windows.net/c?sv=2022-11-02&s" + "ig=" + d.text(ALNUM, 43) + "%3D"
    ),
    "discord": lambda d: (
        d.choice("MN") + d.text(ALNUM, 23) + "." + d.text(WORD, 6) + "." + d.text(WORD, 38)
    ),
    "discord-webhook": lambda d: (
        "https://discord.com/api/web" + f"hooks/{d.randrange(10**17, 10**18)}/" + d.text(WORD, 68)
    ),
    "telegram": lambda d: f"{d.randrange(10**9, 10**10)}:" + "AA" + d.text(WORD, 33),
    "shopify": lambda d: "shp" + "at_" + d.hex(32),
    "square": lambda d: "sq0" + "atp-" + d.text(WORD, 22),
    "databricks": lambda d: "da" + "pi" + d.hex(32),
    "newrelic": lambda d: "NR" + "AK-" + d.text(UPPER32 + "01", 27),
    "grafana": lambda d: "gl" + "sa_" + d.text(ALNUM, 32) + "_" + d.hex(8),
    "linear": lambda d: "lin" + "_api_" + d.text(ALNUM, 40),
    "notion": lambda d: "nt" + f"n_{d.randrange(10**10, 10**11)}" + d.text(ALNUM, 35),
    "postman": lambda d: "PM" + "AK-" + d.hex(24) + "-" + d.hex(34),
    "doppler": lambda d: "dp" + ".pt." + d.text(ALNUM, 43),
    "vault": lambda d: "hv" + "s." + d.text(WORD, 96),
    "terraform": lambda d: d.text(ALNUM, 14) + ".atlas" + "v1." + d.text(WORD, 67),
    "pulumi": lambda d: "pu" + "l-" + d.hex(40),
    "supabase": lambda d: "sb" + "p_" + d.hex(40),
    "planetscale": lambda d: "pscale" + "_tkn_" + d.text(WORD, 43),
    "atlassian": lambda d: "ATA" + "TT3xFfGF0" + d.text(WORD, 180),
    "dropbox": lambda d: "s" + "l." + d.text(WORD, 136),
    "figma": lambda d: "fi" + "gd_" + d.text(WORD, 43),
    "airtable": lambda d: "pa" + "t" + d.text(ALNUM, 14) + "." + d.hex(64),
    "sentry": lambda d: "sntr" + "yu_" + d.hex(64),
    "tailscale": lambda d: "ts" + "key-auth-" + d.text(ALNUM, 17) + "-" + d.text(ALNUM, 32),
    "hubspot": lambda d: "pa" + "t-na1-" + d.uuid(),
    "age": lambda d: "AGE-SECRET" + "-KEY-1" + d.text("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "cloudflare": lambda d: "cfu" + "t_" + d.text(ALNUM, 48),
    "cloudflare-account": lambda d: "cfa" + "t_" + d.text(ALNUM, 48),
    "cloudflare-key": lambda d: "cf" + "k_" + d.text(ALNUM, 48),
    "together": lambda d: "tgp" + "_v1_" + d.text(WORD, 43),
    "llama": lambda d: "ll" + "x-" + d.text(ALNUM, 48),
    "gitlab-runner-registration": lambda d: "gl" + "rtr-" + d.text(WORD, 20),
    "gitlab-workspace": lambda d: "gl" + "wt-" + d.text(WORD, 33),
    "bitbucket-http": lambda d: "BB" + "DC-" + d.text(ALNUM + "+/", 44),
    "docker-swarm": lambda d: "SWM" + "TKN-1-" + d.text(BASE36, 50) + "-" + d.text(BASE36, 25),
    "posthog-refresh": lambda d: "ph" + "r_" + d.text(ALNUM, 48),
    "posthog-oauth": lambda d: "ph" + "a_" + d.text(ALNUM, 48),
    "clojars": lambda d: "CLOJ" + "ARS_" + d.hex(60),
    "nkey": lambda d: "S" + "U" + d.text(UPPER32, 56),
    "xai": lambda d: "xa" + "i-" + d.text(ALNUM, 80),
    "perplexity": lambda d: "pp" + "lx-" + d.text(ALNUM, 48),
    "nvidia": lambda d: "nv" + "api-" + d.text(WORD, 64),
    "supabase-secret": lambda d: "sb" + "_secret_" + d.text(WORD, 31),
    "neon": lambda d: "na" + "pi_" + d.text(BASE36, 64),
    "sonar": lambda d: "sq" + "u_" + d.hex(40),
    "jfrog": lambda d: "AK" + "Cp" + d.text(ALNUM, 69),
    "jwt": Dice.jwt,
    "rsa-key": lambda d: d.pem("RSA "),
    "openssh-key": lambda d: d.pem("OPENSSH "),
    "cut-off-key": lambda d: d.pem("EC ", cut=True),
    "pgp-key": lambda d: d.pem("PGP ").replace(" KEY-----", " KEY BLOCK-----"),
}


def _named(name: str, make: Callable[[Dice], str]) -> Callable[[Dice], tuple[str, str]]:
    def place(dice: Dice) -> tuple[str, str]:
        secret = make(dice)
        line = dice.choice(
            [
                f"export {name}={secret}",
                f"{name}={secret}",
                f'"{name.lower()}": "{secret}"',
                f"+{name.lower()} = '{secret}'",
                f"-e {name}={secret} image:latest",
                f"{name}: {secret}",
            ]
        )
        return secret, line

    return place


def _password(dice: Dice) -> str:
    return dice.text(ALNUM + "!#%*+", 16).replace("%", "7")


def _inside(
    template: str, make: Callable[[Dice], str] = _password
) -> Callable[[Dice], tuple[str, str]]:
    def place(dice: Dice) -> tuple[str, str]:
        secret = make(dice)
        return secret, template.replace("@@", secret)

    return place


# Kinds only their surroundings give away: the secret and the line it stands in.
IN_CONTEXT: dict[str, Callable[[Dice], tuple[str, str]]] = {
    "aws-secret": _named("AWS_SECRET_ACCESS_KEY", lambda d: d.text(ALNUM + "/+", 40)),
    "heroku": _named("HEROKU_API_KEY", Dice.uuid),
    "datadog": _named("DATADOG_API_KEY", lambda d: d.hex(32)),
    "vercel": _named("VERCEL_TOKEN", lambda d: d.text(ALNUM, 24)),
    "cloudflare": _named("CLOUDFLARE_API_TOKEN", lambda d: d.text(WORD, 40)),
    "twilio-auth": _named("TWILIO_AUTH_TOKEN", lambda d: d.hex(32)),
    "algolia": _named("ALGOLIA_ADMIN_KEY", lambda d: d.hex(32)),
    "okta": _named("OKTA_API_TOKEN", lambda d: "00" + d.text(WORD, 40)),
    "django": _named("DJANGO_SECRET_KEY", lambda d: d.text(ALNUM + "_", 50)),
    "database": _named("DB_PASSWORD", lambda d: d.text(ALNUM, 14)),
    "client-secret": _named("OAUTH_CLIENT_SECRET", lambda d: d.text(ALNUM, 40)),
    "postgres-url": _inside(
        "psql postgresql://app:@@@db.internal:5432/app", lambda d: d.text(ALNUM, 14)
    ),
    "redis-url": _inside("REDIS_URL=redis://:@@@cache:6379/0", lambda d: d.text(ALNUM, 20)),
    "https-url": _inside(
        "git clone https://bob:@@@git.example.com/x.git", lambda d: d.text(ALNUM, 16)
    ),
    "bearer": _inside(
        "curl -H 'Authorization: Bearer @@' https://api.example.com", lambda d: d.text(WORD, 40)
    ),
    "basic": _inside(
        '"Authorization": "Basic @@"',
        lambda d: base64.b64encode(f"u:{d.text(ALNUM, 12)}".encode()).decode(),
    ),
    "api-key-header": _inside(
        "curl -H 'X-Api-Key: @@' https://api.example.com", lambda d: d.text(ALNUM, 32)
    ),
    "cookie": _inside("Cookie: theme=dark; session=@@", lambda d: d.text(ALNUM, 40)),
    "curl-user": _inside("curl -s -u admin:@@ https://example.com/private"),
    "password-flag": _inside("mytool --user bob --password @@ --verbose"),
    "token-flag": _inside("deploy --auth-token=@@ --env prod", lambda d: d.text(ALNUM, 32)),
    "mysql": _inside("mysql -h db -u root -p@@ shop", lambda d: d.text(ALNUM, 14)),
    "sshpass": _inside("sshpass -p '@@' ssh deploy@host uptime", lambda d: d.text(ALNUM, 14)),
    "sql-identified": _inside(
        "CREATE USER 'app'@'%' IDENTIFIED BY '@@';", lambda d: d.text(ALNUM, 14)
    ),
    "sql-role": _inside("ALTER ROLE app WITH LOGIN PASSWORD '@@';", lambda d: d.text(ALNUM, 14)),
    "netrc": _inside("machine api.example.com login bob password @@", lambda d: d.text(ALNUM, 14)),
    "npmrc": _inside("//registry.example.com/:_authToken=@@", lambda d: d.text(ALNUM, 36)),
    "xml": _inside("<server><password>@@</password></server>", lambda d: d.text(ALNUM, 14)),
    "docker-config": _inside(
        '{"auths": {"r.example.com": {"auth": "@@"}}}',
        lambda d: base64.b64encode(f"u:{d.text(ALNUM, 20)}".encode()).decode(),
    ),
    "connection-string": _inside(
        "Server=db;User Id=sa;Password=@@;Encrypt=true", lambda d: d.text(ALNUM, 14)
    ),
}


def _word(dice: Dice) -> str:
    return "".join(dice.choice("bdfgklmnprstv") + dice.choice("aeiou") for _ in range(5))


# Passwords that look like words, after a name that leaves no doubt.
IN_CONTEXT |= {
    "word-quoted": _inside('password = "@@"', _word),
    "word-json": _inside('{"db_password": "@@", "port": 5432}', _word),
    "word-flag": _inside("mytool --user bob --password @@ --verbose", _word),
    "word-yaml": _inside("db:\n  password: @@\n  port: 5432", _word),
    "word-env": _inside("export SMTP_PASS=@@", _word),
    "word-sql": _inside("CREATE USER app IDENTIFIED BY @@;", _word),
    "base64-value": _inside(
        "client_secret=@@", lambda d: base64.b64encode(d.text(ALNUM, 16).encode()).decode()
    ),
}

CONTEXTS: dict[str, Callable[[str], str]] = {
    "env dump": lambda s: f"HOME=/root\nSERVICE_TOKEN={s}\nLANG=C",
    "diff": lambda s: f"@@ -1,2 +1,2 @@\n-key = None\n+key = '{s}'\n context",
    "curl": lambda s: f"curl -sS -H 'Authorization: Bearer {s}' https://api.example.com/v1",
    "json": lambda s: json.dumps({"service": {"credential": s}, "n": 1}),
    "escaped json": lambda s: json.dumps(json.dumps({"value": s})),
    "source": lambda s: f'client = Client("{s}", timeout=30)',
    "yaml": lambda s: f"service:\n  value: {s}\n  port: 80",
    "log": lambda s: f"2026-01-01 12:00:00 INFO using {s} for upload",
    "url": lambda s: f"https://example.com/callback?state=1&value={s}&x=2",
    "escaped lines": lambda s: json.dumps({"output": f"first\n{s}\nlast"}),
    "encoded url": lambda s: f"https://example.com/?next=%2Fx%3Fvalue%3D{s}",
    "colour": lambda s: f"value \x1b[32m{s}\x1b[0m ok",
    "glued": lambda s: f"backup_{s} done",
    "backticks": lambda s: f"set it to `{s}`, then go on.",
}
