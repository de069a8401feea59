"""Tokens of services for people, money and machines; same form as `redaction_rules`."""
# ruff: noqa: E501 - a pattern is read whole

from __future__ import annotations

__all__ = ["SERVICE_RULES"]

_B = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt])|(?<=%[2-7][0-9A-F]))"
_E = r"(?![A-Za-z0-9_])"

# fmt: off
SERVICE_RULES: tuple[tuple[str, tuple[str, ...], str, float], ...] = (
    # Talking to people.
    ("slack-token", ("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxo-", "xoxe", "xoxc-", "xoxd-"), _B + r"xox(?:[abprsoc]-[A-Za-z0-9-]{10,250}|d-[A-Za-z0-9%+/=-]{20,400}|e(?:\.xox[bp])?-\d-[A-Za-z0-9]{100,400})", 2.5),
    ("slack-app-token", ("xapp-",), _B + r"xapp-\d-[A-Z0-9]{8,20}-\d{8,20}-[A-Za-z0-9]{32,100}" + _E, 3),
    ("slack-webhook", ("hooks.slack.com",), r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[A-Za-z0-9+/]{30,120})", 3),
    ("discord-token", (), _B + r"(?<![.-])[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_.-])", 4),
    ("discord-webhook", ("/api/webhooks/",), r"discord(?:app)?\.com/api/webhooks/\d{15,22}/(?P<s>[A-Za-z0-9_-]{60,80})", 3),
    ("telegram-token", (":aa",), _B + r"(?<!:)\d{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])", 3),
    ("teams-webhook", ("webhook.office.com",), r"webhook\.office\.com/webhookb2/(?P<s>[a-f0-9@-]{70,80}/IncomingWebhook/[a-f0-9]{32}/[a-f0-9-]{36})", 3),
    ("sendgrid-key", ("sg.",), _B + r"SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}" + _E, 3),
    ("twilio-key", (), _B + r"SK(?=[a-f]{0,32}\d)[a-f0-9]{32}" + _E, 3),
    ("twilio-auth", ("twilio",), r"(?i)twilio.{0,60}?(?:auth|token|secret).{0,20}?[\"'=:\s]{1,8}(?-i:(?P<s>[a-f0-9]{32}))" + _E, 3),
    ("mailgun-key", ("key-", "pubkey-"), _B + r"(?:pub)?key-[a-f0-9]{32}" + _E, 3),
    ("mailgun-signing", ("mailgun",), r"(?i)mailgun.{0,60}?[\"'=:\s]{1,8}(?-i:(?P<s>[a-f0-9]{32}-[a-f0-9]{8}-[a-f0-9]{8}))" + _E, 3),
    ("mailchimp-key", ("-us",), _B + r"[a-f0-9]{32}-us\d{1,2}" + _E, 3),
    ("brevo-key", ("xkeysib-",), _B + r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}" + _E, 3),
    ("resend-key", ("re_",), _B + r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,30}" + _E, 3.5),
    ("postmark-token", ("postmark",), r"(?i)postmark.{0,60}?(?:token|key).{0,20}?[\"'=:\s]{1,8}(?P<s>[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12})" + _E, 3),
    # Money and shops.
    ("stripe-key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "whsec_"), _B + r"(?:(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{16,250}|whsec_[A-Za-z0-9+/]{24,100}={0,2})", 3),
    ("square-token", ("eaaa", "sq0"), _B + r"(?:EAAA[A-Za-z0-9+=_-]{56,64}|sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,50})" + _E, 3),
    ("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_", "shpua_"), _B + r"shp(?:at|ca|pa|ss|ua)_[A-Fa-f0-9]{32}" + _E, 3),
    ("paypal-token", ("access_token$",), r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}", 3),
    ("plaid-token", ("access-sandbox-", "access-production-", "access-development-"), _B + r"access-(?:sandbox|development|production)-[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12}" + _E, 3),
    ("flutterwave-key", ("flwseck",), _B + r"FLWSECK(?:_TEST)?-[a-z0-9]{12,40}(?:-X)?" + _E, 3),
    # Watching machines.
    ("datadog-key", ("datadog", "dd_api", "dd_app", "dd-api", "dd-app"), r"(?i)(?:datadog|dd[_-]ap[ip]).{0,40}?[\"'=:\s]{1,8}(?-i:(?P<s>[a-f0-9]{40}|[a-f0-9]{32}))" + _E, 3),
    ("newrelic-key", ("nrak-", "nraa-", "nrii-", "nrjs-", "nral"), _B + r"(?:NR(?:AK|AA|II|SP|RA)-[A-Za-z0-9_-]{27,36}|NRJS-[a-f0-9]{19}|[a-f0-9]{36}NRAL)" + _E, 3),
    ("grafana-token", ("glsa_", "glc_"), _B + r"(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,400}={0,2})", 3),
    ("grafana-key", ("eyjrijoi",), _B + r"eyJrIjoi[A-Za-z0-9_-]{70,400}={0,2}", 3),
    ("sentry-token", ("sntrys_", "sntryu_"), _B + r"sntry(?:u_[a-f0-9]{64}|s_[A-Za-z0-9+/=_-]{40,400})", 3),
    ("sentry-dsn", ("ingest.", "sentry"), r"https://(?P<s>[a-f0-9]{32}(?::[a-f0-9]{32})?)@[a-z0-9.-]{0,60}sentry", 3),
    ("dynatrace-token", ("dt0",), _B + r"dt0[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}" + _E, 3),
    ("posthog-key", ("phx_", "phs_"), _B + r"ph[xs]_[A-Za-z0-9]{40,60}" + _E, 3),
    ("pagerduty-key", ("pagerduty",), r"(?i)pagerduty.{0,60}?[\"'=:\s]{1,8}(?-i:(?P<s>[A-Za-z0-9+_-]{20}|[a-f0-9]{32}))" + _E, 3.5),
    # Work in the browser.
    ("linear-key", ("lin_api_", "lin_oauth_"), _B + r"lin_(?:api_[A-Za-z0-9]{40}|oauth_[a-f0-9]{64})" + _E, 3),
    ("notion-token", ("ntn_", "secret_"), _B + r"(?:ntn_\d{11}[A-Za-z0-9]{32,40}|secret_(?=[A-Za-z]{0,43}\d)[A-Za-z0-9]{43})" + _E, 3.5),
    ("postman-key", ("pmak-", "pmat-"), _B + r"PM(?:AK-[a-f0-9]{24}-[a-f0-9]{34}|AT-[A-Z0-9]{26})" + _E, 3),
    ("figma-token", ("figd_", "figo_", "figu_"), _B + r"fig[dou]_[A-Za-z0-9_-]{40,60}" + _E, 3),
    ("airtable-token", (), _B + r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}" + _E, 3),
    ("airtable-key", ("airtable",), r"(?i)airtable.{0,60}?[\"'=:\s]{1,8}(?-i:(?P<s>key[A-Za-z0-9]{14}))" + _E, 3),
    ("asana-token", ("/1",), _B + r"(?<!/)[12]/\d{14,18}(?:/\d{14,18})?:[a-f0-9]{32}" + _E, 3),
    ("dropbox-token", ("sl.",), _B + r"sl\.(?:u\.)?[A-Za-z0-9_-]{100,2000}", 3.5),
    ("dropbox-key", ("dropbox",), r"(?i)dropbox.{0,60}?(?:secret|token|key).{0,20}?[\"'=:\s]{1,8}(?-i:(?P<s>[a-z0-9]{15}|[A-Za-z0-9_-]{64}))" + _E, 3),
    ("hubspot-token", ("pat-na", "pat-eu"), _B + r"pat-(?:na|eu)\d-[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12}" + _E, 3),
    ("typeform-token", ("tfp_",), _B + r"tfp_[A-Za-z0-9_-]{40,64}" + _E, 3),
    ("contentful-token", ("cfpat-",), _B + r"CFPAT-[A-Za-z0-9_-]{43}" + _E, 3),
    ("mapbox-token", ("sk.eyj",), _B + r"sk\.eyJ[A-Za-z0-9_-]{20,300}\.[A-Za-z0-9_-]{20,40}", 3),
    ("launchdarkly-key", ("sdk-", "api-", "mob-"), _B + r"(?:sdk|mob)-[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12}" + _E, 3),
    ("facebook-token", ("eaac", "eaa"), _B + r"EAA(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{80,300}" + _E, 3.5),
    ("twitter-token", ("aaaaaaaaa",), _B + r"A{20,24}[A-Za-z0-9%]{60,120}" + _E, 3),
    # Data.
    ("databricks-token", ("dapi", "dose"), _B + r"(?:dapi|dose)[a-f0-9]{32}(?:-\d{1,2})?" + _E, 3),
    ("supabase-key", ("sbp_", "sb_secret_"), _B + r"(?:sbp_(?:v0_)?[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,60})" + _E, 3),
    ("planetscale-token", ("pscale_",), _B + r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,80}", 3),
    ("snowflake-key", ("snowflake",), r"(?i)snowflake.{0,40}?(?:password|token).{0,20}?[\"'=:\s]{1,8}(?P<s>[^\s\"']{8,200})", 3),
    ("neon-key", ("napi_",), _B + r"napi_[a-z0-9]{60,80}" + _E, 3),
    ("prefect-key", ("pnu_", "pnb_"), _B + r"pn[ub]_[A-Za-z0-9]{36}" + _E, 3),
    ("tailscale-key", ("tskey-",), _B + r"tskey-[a-z]{3,12}-[A-Za-z0-9]{8,24}(?:-[A-Za-z0-9]{16,40})?" + _E, 3),
    ("ngrok-token", ("ngrok",), r"(?i)ngrok.{0,60}?[\"'=:\s]{1,8}(?-i:(?P<s>[A-Za-z0-9]{27}_[A-Za-z0-9]{20,24}))" + _E, 3.5),
    ("cloudflare-token", ("cloudflare", "cf_api", "cf-api", "cf_dns", "x-auth-key"), r"(?i)(?:cloudflare|cf[_-](?:api|dns)|x-auth-key).{0,40}?[\"'=:\s]{1,8}(?-i:(?P<s>[a-f0-9]{37}|[A-Za-z0-9_-]{40}))" + _E, 3.5),
    ("vercel-key", ("vercel",), r"(?i)vercel.{0,40}?(?:token|key|secret).{0,20}?[\"'=:\s]{1,8}(?-i:(?P<s>(?=[A-Za-z]{0,24}\d)[A-Za-z0-9]{24}))" + _E, 3.5),
    ("heroku-token", ("heroku",), r"(?i)heroku.{0,60}?[\"'=:\s]{1,8}(?P<s>[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12})" + _E, 3),
    ("okta-token", ("okta", "ssws"), r"(?i)(?:okta|ssws).{0,40}?[\"'=:\s]{1,8}(?-i:(?P<s>00[A-Za-z0-9_-]{40}))" + _E, 3.5),
    ("algolia-key", ("algolia",), r"(?i)algolia.{0,60}?[\"'=:\s]{1,8}(?-i:(?P<s>[a-f0-9]{32}))" + _E, 3),
    ("fastly-token", ("fastly",), r"(?i)fastly.{0,40}?[\"'=:\s]{1,8}(?-i:(?P<s>[A-Za-z0-9_-]{32}))" + _E, 3.5),
    ("snyk-token", ("snyk",), r"(?i)snyk.{0,40}?(?:token|key).{0,20}?[\"'=:\s]{1,8}(?P<s>[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12})" + _E, 3),
    ("codecov-token", ("codecov",), r"(?i)codecov.{0,40}?token.{0,20}?[\"'=:\s]{1,8}(?P<s>[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12}|[a-f0-9]{32})" + _E, 3),
    ("travis-token", ("travis",), r"(?i)travis.{0,40}?token.{0,20}?[\"'=:\s]{1,8}(?-i:(?P<s>(?=[A-Za-z_-]{0,22}\d)[A-Za-z0-9_-]{22}))" + _E, 3.5),
    ("coinbase-key", ("coinbase",), r"(?i)coinbase.{0,40}?(?:secret|key).{0,20}?[\"'=:\s]{1,8}(?-i:(?P<s>(?=[A-Za-z_-]{0,64}\d)[A-Za-z0-9_-]{64}))" + _E, 3.5),
)
# fmt: on
