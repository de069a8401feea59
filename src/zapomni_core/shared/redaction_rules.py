"""What secrets look like: data for `redaction`, written from each issuer's public format.

Python literals and not JSON or TOML, because a hook loads them at every event. On CPython 3.11 the
bytecode is read in 1.3 million instructions, the same rules as JSON in 1.8 and as TOML, its parser
loaded first, in 94 million, more than a whole hook takes. Change `VERSION` with any rule.

TOKENS   tokens that begin with something fixed: kind, the beginnings, pattern of what follows, least
         entropy of the whole in bits per character. No letter or digit may touch a token.
SHAPES   tokens with a form but no beginning: kind, what must occur in them, pattern, entropy.
SERVICES values that only the name of a service before them gives away: kind, the names in small
         letters, pattern of the value, entropy.
CONTEXTS secrets given away by the syntax around them: kind, what must occur in the text, in small
         letters, pattern with the secret in group "s", entropy.
"""
# ruff: noqa: E501 - a pattern is read whole

from __future__ import annotations

# fmt: off
__all__ = [
    "ABOUT", "ABOUT_BEFORE", "CONTEXTS", "FILLERS", "GLUED_PW", "NAMES", "NAME_KEYWORDS", "NOT_PASS", "SERVICES",
    "SHAPES", "STOP_WORDS", "TOKENS", "VERSION",
]

VERSION = "2026.11"

_HEX32 = r"[a-f0-9]{32}"
_HEX40 = r"[a-f0-9]{40}"
_HEX64 = r"[a-f0-9]{64}"
_UUID = r"[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12}"
# Digits or capitals somewhere: not a name with underscores.
_DIGIT = r"(?=[A-Za-z_-]{0,80}\d)"
_MIXED = r"(?=[A-Za-z_-]{0,80}\d)(?=[a-z0-9_-]{0,80}[A-Z])(?=[A-Z0-9_-]{0,80}[a-z])"
_LINES = r"(?:(?:\s|\\r|\\n){1,12}[A-Za-z0-9+/=]{4,200}){0,200}"

TOKENS: tuple[tuple[str, str, str, float], ...] = (
    # Keys.
    ("private-key-body", "MII", r"(?:[A-Za-z0-9+/]{3}IB(?:AA|AD)|B?[A-Za-z0-9+/]{2}gEA)[A-Za-z0-9+/=]{30,8000}" + _LINES, 3),
    ("private-key-body", "MHcCAQEE MHQCAQEE MIGHAgEA MIGkAgE MIHuAgE MC4CAQAw b3BlbnNzaC1rZXktdjE", r"[A-Za-z0-9+/=]{30,8000}" + _LINES, 3),
    ("private-key-encoded", "LS0tLS1CRUdJTi", r"(?!BDRVJU|BQVUJM)[A-Za-z0-9+/=]{30,20000}", 3),
    ("jwt", "eyJ", r"[A-Za-z0-9_-]{8,4000}\.(?:eyJ)?[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{0,4000}){0,3}", 3),
    ("jwk", "eyJrdHki ewogICAg WwogICAg", r"[A-Za-z0-9+/=_-]{100,8000}", 3),
    ("age-key", "AGE-SECRET-KEY-1 age-secret-key-1", r"[0-9A-Za-z]{40,64}", 3),
    ("age-plugin-key", "AGE-PLUGIN-YUBIKEY-1", r"[0-9A-Z]{10,80}", 3),
    ("nkey-seed", "SU SO SA SN SC SX", r"[A-Z2-7]{56}", 3.8),
    ("bitcoin-private-key", "xprv", r"[A-Za-z0-9]{100,112}", 3),
    ("ntlm-token", "TlRMTVNTUAA", r"[A-Za-z0-9+/]{40,2000}={0,2}", 2),
    # Clouds.
    ("aws-access-key", "AKIA ASIA ABIA ACCA AROA AIDA AGPA AIPA ANPA ANVA APKA ASCA", r"[A-Z0-9]{16}", 2.5),
    ("aws-access-key", "A3T", r"[A-Z0-9]{17}", 2.5),
    ("aws-bedrock-key", "ABSK", r"[A-Za-z0-9+/]{60,300}={0,2}", 3),
    ("aws-bedrock-key", "bedrock-api-key-", r"[A-Za-z0-9+/=_-]{28,2000}", 3),
    ("aws-mws-key", "amzn.mws.", r"[a-z0-9]{8}-(?:[a-z0-9]{4}-){3}[a-z0-9]{12}", 2),
    ("aws-appsync-key", "da2-", r"[a-z0-9]{26}", 3),
    ("google-api-key", "AIza", r"[A-Za-z0-9_-]{35}", 2.5),
    ("google-oauth-secret", "GOCSPX-", r"[A-Za-z0-9_-]{28}", 2),
    ("google-oauth-token", "ya29.", r"[A-Za-z0-9_.-]{20,2000}", 3),
    ("google-refresh-token", "1//0", r"[A-Za-z0-9_-]{40,200}", 3.5),
    ("google-oauth-code", "4/0A", r"[A-Za-z0-9_-]{50,200}", 3.5),
    ("google-hmac", "GOOG1E", r"[A-Z0-9]{10,60}", 3),
    ("gemini-key", "AQ.Ab", r"[A-Za-z0-9_-]{40,80}", 3),
    ("digitalocean-token", "doo_v1_ dop_v1_ dor_v1_", r"[a-f0-9]{60,64}", 2),
    ("digitalocean-model-key", "sk-do-", r"[A-Za-z0-9_-]{40,100}", 3),
    ("alibaba-key", "LTAI", r"[A-Za-z0-9]{12,26}", 3),
    ("tencent-id", "AKID", r"[A-Za-z0-9]{32}", 3),
    ("wechat-app", "wx", r"(?=[a-f]{0,15}\d)[a-f0-9]{16}", 2.8),
    ("volcengine-key", "AKLT", r"[A-Za-z0-9+/=_-]{36,100}", 3),
    ("baidu-key", "bce-v3/ALTAK-", r"[A-Za-z0-9]{21}/[a-f0-9]{40}", 3),
    ("ibm-key", "ApiKey- apikey-", _UUID, 3),
    ("cloudflare-token", "cfut_ cfat_ cfk_ cfpat_ cfrt_ cfast_ cfoc_", r"[A-Za-z0-9_-]{32,100}", 3),
    ("cloudflare-origin-key", "v1.0-", r"[a-f0-9]{24}-[a-f0-9]{146}", 3),
    ("flyio-token", "fo1_", r"[A-Za-z0-9_-]{43}", 3),
    ("flyio-token", "fm1a_ fm1r_ fm1_ fm2_", r"[A-Za-z0-9+/,_-]{80,2000}={0,3}", 3),
    ("scaleway-key", "SCW", r"[A-Z0-9]{17}", 3),
    ("heroku-key", "HRKU-", r"[A-Za-z0-9_-]{36,80}", 2),
    ("render-key", "rnd_", r"[A-Za-z0-9]{28,40}", 3),
    ("akamai-key", "akab- akac- akag- akat-", r"[a-z0-9]{16}-[a-z0-9]{16}", 2.5),
    ("ngrok-key", "ak_ cr_ ngrok_", _MIXED + r"[A-Za-z0-9]{27,30}", 3.5),
    ("defined-networking-key", "dnkey-", r"[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{40,60}", 3),
    ("tailscale-key", "tskey-", r"[a-z]{3,12}-[A-Za-z0-9]{8,24}(?:-[A-Za-z0-9]{16,40})?", 3),
    ("openshift-token", "sha256~", r"[A-Za-z0-9_-]{43}", 3),
    ("rancher-token", "token-", r"[a-z0-9]{5}:[a-z0-9]{54}", 3),
    ("yandex-key", "AQVN", r"[A-Za-z0-9_-]{35,38}", 3.3),
    ("yandex-key", "YCAJ YCM YCN YCP", r"[A-Za-z0-9_-]{36,40}", 3.3),
    ("yandex-token", "y0_ y1_ y2_ y3_", r"[A-Za-z0-9_-]{50,80}", 3.3),
    # Code hosting and building.
    ("github-pat", "ghp_", r"[A-Za-z0-9]{30,255}", 1.5),
    ("github-pat", "github_pat_", r"[A-Za-z0-9_]{22,255}", 1.5),
    ("github-token", "gho_ ghu_ ghs_ ghr_ ghe_", r"[A-Za-z0-9_.-]{30,1000}", 1.5),
    ("gitlab-token", "glpat- gldt- glrt- glrtr- glrs- glwt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct-", r"[A-Za-z0-9_.=-]{16,400}", 2),
    ("gitlab-runner-token", "GR1348941", r"[A-Za-z0-9_-]{20}", 2),
    ("gitlab-session", "gitlab_session=", _HEX32, 2),
    ("bitbucket-token", "ATBB", r"[A-Za-z0-9_=.-]{24,40}", 3),
    ("bitbucket-token", "BBDC-", r"[A-Za-z0-9+/@_-]{40,50}", 3),
    ("atlassian-token", "ATATT ATCTT ATCCTT ATSTT", r"[A-Za-z0-9_=-]{40,600}", 3),
    ("npm-token", "npm_", r"[A-Za-z0-9]{36}", 2),
    ("pypi-token", "pypi-Ag", r"[A-Za-z0-9_-]{50,1000}", 3),
    ("rubygems-key", "rubygems_", r"[a-f0-9]{48}", 2),
    ("crates-token", "cio", r"[A-Za-z0-9]{32}", 3.5),
    ("nuget-key", "oy2", r"[a-z0-9]{43}", 3),
    ("clojars-token", "CLOJARS_ clojars_", r"[A-Fa-f0-9]{40,80}", 2),
    ("packagist-token", "packagist_", r"[a-z]{3}_[a-f0-9]{60,80}", 3),
    ("jsr-token", "jsrp_ jsrd_", r"[A-Za-z0-9]{40,100}", 3),
    ("docker-token", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{26,40}", 2),
    ("docker-swarm-token", "SWMTKN-1-", r"[a-z0-9]{50}-[a-z0-9]{25}", 3),
    ("docker-swarm-key", "SWMKEY-1-", r"[A-Za-z0-9+/]{43}", 3),
    ("jfrog-token", "AKCp", r"[A-Za-z0-9]{40,80}", 3),
    ("jfrog-token", "cmVmdGtu", r"[A-Za-z0-9]{40,80}", 3),
    ("pulumi-token", "pul-", _HEX40, 2),
    ("buildkite-token", "bkua_ bkct_ bkpt_ bkaj_", r"[A-Za-z0-9]{40,80}", 2.5),
    ("circleci-token", "CCIPAT_ CCIPRJ_ ccipat_ cciprj_", r"[A-Za-z0-9]{16,40}_[a-f0-9]{40}", 3),
    ("sonar-token", "squ_ sqp_ sqa_", _HEX40, 2),
    ("vault-token", "hvs. hvb. hvr.", r"[A-Za-z0-9_-]{20,400}", 3),
    ("vault-token", "s. b. r.", _MIXED + r"[A-Za-z0-9]{24}(?![.(])", 3.9),
    ("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.said. dp.scim. dp.audit.", r"(?:[a-z0-9_-]{2,40}\.)?[A-Za-z0-9]{40,44}", 3),
    ("infisical-token", "st.", r"[a-f0-9-]{24,36}\.[a-f0-9]{32}\.[a-f0-9]{32}", 3),
    ("onepassword-token", "ops_eyJ", r"[A-Za-z0-9+/=_-]{200,4000}", 3),
    ("onepassword-key", "A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}", 3),
    ("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", r"[A-Za-z0-9]{24,80}", 3),
    ("vercel-blob-token", "vercel_blob_rw_", r"[A-Za-z0-9_]{30,80}", 3),
    ("netlify-token", "nfp_ nfk_ nfu_ nfc_ nfo_", r"[A-Za-z0-9]{36}", 2.5),
    ("snyk-token", "snyk_uat. snyk_sat.", r"[a-z0-9]{8}\.[A-Za-z0-9_.-]{40,400}", 3),
    ("sourcegraph-token", "sgp_", r"(?:[a-f0-9]{16}_|local_)?[a-f0-9]{40}", 3),
    ("sourcegraph-token", "sgd_ slk_", _HEX64, 3),
    ("wundergraph-key", "cosmo_", _HEX32, 3),
    ("octopus-key", "API-", r"[A-Z0-9]{25,32}", 3.3),
    ("prefect-key", "pnu_ pnb_", r"[A-Za-z0-9]{36}", 3),
    ("codemagic-token", "codemagic_", r"[A-Za-z0-9_-]{40,60}", 3),
    ("dependency-track-key", "odt_", r"[A-Za-z0-9_]{32,50}", 3),
    ("terraform-token", "atlasv1.", r"[A-Za-z0-9_=-]{40,80}", 3.5),
    ("replit-token", "replit_", r"[A-Za-z0-9_-]{40,100}", 3.3),
    ("gitea-token", "gitea_", r"[a-f0-9]{40}", 3),
    ("depot-token", "depot_", r"(?:org|project|ci|usr)_[a-f0-9]{60,80}", 3),
    # Models.
    ("anthropic-key", "sk-ant-", r"[A-Za-z0-9_-]{20,200}", 2),
    ("openrouter-key", "sk-or-", r"(?:v1-)?[a-f0-9]{40,80}", 2),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None- sk-service- sk-", _MIXED + r"[A-Za-z0-9_-]{20,300}", 3.3),
    ("openai-session", "sess-", r"[A-Za-z0-9]{40}", 3.3),
    ("deepseek-key", "sk-", r"(?=[a-f]{0,32}\d)[a-f0-9]{32,64}", 3),
    ("model-key", "sk-kimi- sk-litellm- sk-pl- sk-api- sk-cp- sk-", _DIGIT + r"[A-Za-z0-9]{40,64}", 3.5),
    ("langfuse-key", "sk-lf-", _UUID, 3),
    ("huggingface-token", "hf_", r"[A-Za-z0-9]{30,40}", 3),
    ("huggingface-token", "api_org_", r"[A-Za-z0-9]{34}", 3),
    ("groq-key", "gsk_", r"[A-Za-z0-9]{40,60}", 3),
    ("perplexity-key", "pplx-", r"[A-Za-z0-9]{32,64}", 3),
    ("replicate-token", "r8_", r"[A-Za-z0-9_-]{37,40}", 3),
    ("xai-key", "xai-", r"[A-Za-z0-9_]{60,100}", 3),
    ("langsmith-key", "lsv2_pt_ lsv2_sk_", r"[a-f0-9]{32}_[a-f0-9]{10}", 2.5),
    ("langsmith-key", "ls__", _HEX32, 2.5),
    ("tavily-key", "tvly-", r"(?:dev-|prod-)?[A-Za-z0-9_-]{28,60}", 3),
    ("pinecone-key", "pcsk_", r"[A-Za-z0-9_]{50,90}", 3),
    ("together-key", "tgp_v1_", r"[A-Za-z0-9_-]{40,60}", 2.5),
    ("llama-key", "llx-", r"[A-Za-z0-9]{40,60}", 3),
    ("llama-key", "LLM|", r"\d{6,20}\|[A-Za-z0-9_-]{16,60}", 3),
    ("fireworks-key", "fw_", _DIGIT + r"[A-Za-z0-9]{22,40}", 3.5),
    ("cerebras-key", "csk-", r"[A-Za-z0-9]{40,60}", 3),
    ("nvidia-key", "nvapi-", r"[A-Za-z0-9_-]{50,90}", 3),
    ("elevenlabs-key", "sk_", r"[a-f0-9]{48}", 3),
    ("voyage-key", "pa-", _MIXED + r"[A-Za-z0-9_-]{40,60}", 4),
    ("jina-key", "jina_", r"[A-Za-z0-9_-]{50,80}", 3),
    ("firecrawl-key", "fc-", _HEX32, 3),
    ("exa-key", "exa_", _DIGIT + r"[A-Za-z0-9_-]{30,60}", 3.5),
    ("helicone-key", "sk-helicone- pk-helicone-", r"(?:eu-)?[a-z0-9]{7,8}(?:-[a-z0-9]{7,8}){3}", 3),
    ("e2b-key", "e2b_ sk_e2b_", _HEX40, 3),
    ("modal-key", "ak- as-", _DIGIT + r"[A-Za-z0-9]{22}", 3.8),
    ("mem0-key", "m0-", _DIGIT + r"[A-Za-z0-9]{36,60}", 3.3),
    ("unkey-key", "unkey_", r"[A-Za-z0-9]{20,60}", 3.3),
    ("wandb-key", "wandb_v1_", r"[A-Za-z0-9_-]{40,100}", 3),
    # Talking to people.
    ("slack-token", "xoxa- xoxb- xoxp- xoxr- xoxs- xoxo- xoxc-", r"[A-Za-z0-9-]{10,250}", 2),
    ("slack-token", "xoxd-", r"[A-Za-z0-9%+/=-]{20,400}", 2),
    ("slack-token", "xoxe- xoxe.", r"(?:xox[bp]-)?[A-Za-z0-9-]{20,400}", 2),
    ("slack-app-token", "xapp-", r"\d-[A-Z0-9]{8,20}-\d{8,20}-[A-Za-z0-9]{32,100}", 3),
    ("slack-workflow-token", "xwfp-", r"[A-Za-z0-9-]{40,200}", 3),
    ("sendgrid-key", "SG.", r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}", 2.5),
    ("twilio-key", "SK AC", r"(?=[A-Fa-f]{0,32}\d)(?:[a-f0-9]{32}|[A-F0-9]{32})", 3),
    ("mailgun-key", "key- pubkey-", _HEX32, 3),
    ("mandrill-key", "md-", _MIXED + r"[A-Za-z0-9_-]{22}", 3.5),
    ("brevo-key", "xkeysib- xsmtpsib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}", 2.5),
    ("resend-key", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,30}", 3.5),
    ("intercom-token", "dG9rOj", r"[A-Za-z0-9_-]{40,100}={0,2}", 3),
    ("courier-key", "pk_prod_ dk_prod_ pk_test_ dk_test_", r"[A-Z0-9]{28}", 3),
    ("novu-key", "novu_", r"[a-z0-9]{32}", 3),
    ("vk-token", "vk1.a.", r"[A-Za-z0-9_-]{60,300}", 3),
    ("lark-token", "t-g u-g", r"\d{3}[a-z0-9]{30,60}", 3.5),
    ("klaviyo-key", "pk_", r"(?=[a-f]{0,34}\d)[a-f0-9]{34}", 3),
    ("knock-key", "sk_test_ sk_", _MIXED + r"[A-Za-z0-9_-]{40,120}", 4),
    ("onesignal-key", "os_v2_app_ os_v2_org_", r"[a-z0-9]{90,120}", 3),
    # Money and shops.
    ("stripe-key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ pk_live_ pk_test_ pk_prod_", r"[A-Za-z0-9]{14,250}", 2.5),
    ("stripe-key", "whsec_", r"[A-Za-z0-9+/]{24,100}={0,2}", 2.5),
    ("square-token", "EAAA", r"[A-Za-z0-9+=_-]{56,64}", 2.5),
    ("square-token", "sq0", r"[a-z]{3}-[A-Za-z0-9_-]{20,50}", 2.5),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_ shpua_ shptka_ shpit_", r"[A-Fa-f0-9]{32}", 2),
    ("paypal-token", "access_token$production$ access_token$sandbox$", r"[a-z0-9]{16}\$[a-f0-9]{32}", 2),
    ("plaid-token", "access-sandbox- access-development- access-production-", _UUID, 2),
    ("flutterwave-key", "FLWSECK- FLWSECK_TEST-", r"[A-Za-z0-9]{12,40}(?:-X)?", 3),
    ("razorpay-key", "rzp_live_ rzp_test_", r"[A-Za-z0-9]{10,40}", 2.5),
    ("adyen-key", "AQE", r"[A-Za-z0-9]{5}[A-Za-z0-9+/=_.\[\]{}<>:;,()*&^%$#@!~?|-]{60,200}", 4),
    # No name of a test: test_read_format_7zip_packinfo.
    ("payment-key", "live_ test_ sandbox_", _DIGIT + r"(?![a-z0-9]+(?:_[a-z0-9]+){2,}(?![\w=-]))"
     r"(?:pub_)?[A-Za-z0-9_=-]{30,44}", 3.3),
    ("easypost-key", "EZAK EZTK", r"[A-Za-z0-9]{54}", 3),
    ("shippo-token", "shippo_live_ shippo_test_", r"[A-Fa-f0-9]{40}", 3),
    ("duffel-token", "duffel_live_ duffel_test_", r"[A-Za-z0-9_=-]{40,50}", 3),
    ("coinbase-key-name", "organizations/", r"[a-f0-9-]{36}/apiKeys/[a-f0-9-]{36}", 3),
    ("paddle-key", "pdl_live_ pdl_sdbx_ pdl_ntfset_", r"[A-Za-z0-9_]{30,100}", 3),
    ("polar-token", "polar_oat_ polar_pat_ polar_at_ polar_rt_ polar_cs_ polar_whs_", r"[A-Za-z0-9_]{30,80}", 3),
    ("revenuecat-key", "atk_", r"[A-Za-z0-9]{24,60}", 3.5),
    # Watching machines.
    ("newrelic-key", "NRAK- NRAA- NRII- NRIQ- NRSP- NRRA- NRBR-", r"[A-Za-z0-9_-]{19,45}", 2.5),
    ("newrelic-key", "NRJS-", r"[a-f0-9]{19}", 2.5),
    ("grafana-token", "glsa_", r"[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}", 3),
    ("grafana-token", "glc_", r"[A-Za-z0-9+/]{32,400}={0,2}", 3),
    ("grafana-key", "eyJrIjoi", r"[A-Za-z0-9_-]{50,400}={0,2}", 3),
    ("sentry-token", "sntryu_ sntrya_ sntryi_", _HEX64, 3),
    ("sentry-token", "sntrys_", r"[A-Za-z0-9+/=_-]{40,500}", 3),
    ("dynatrace-token", "dt0", r"[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}", 3),
    ("posthog-key", "phx_ phs_ phr_ pha_ phc_", r"[A-Za-z0-9]{30,80}", 3),
    ("logfire-token", "pylf_v1_ pylf_v2_", r"[a-z]{2}_[A-Za-z0-9]{40,80}", 3),
    ("honeycomb-key", "hcaik_ hcalk_ hcamk_", r"[a-z0-9]{26,100}", 3),
    ("axiom-token", "xaat- xapt-", _UUID, 3),
    ("rootly-key", "rootly_", _HEX64, 3),
    ("statsig-key", "secret- console- client-", _MIXED + r"[A-Za-z0-9]{38,46}", 3.7),
    ("incident-io-key", "inc_development_ inc_live_ inc_", _HEX64, 3),
    ("datadog-client-token", "pub", r"(?=[a-f]{0,32}\d)[a-f0-9]{32}", 3),
    ("chronosphere-token", "ctp_", r"[A-Za-z0-9]{30,60}", 3.3),
    # Work in the browser.
    ("linear-key", "lin_api_", r"[A-Za-z0-9]{32,48}", 3),
    ("linear-key", "lin_oauth_", _HEX64, 3),
    ("notion-token", "ntn_", r"[A-Za-z0-9]{40,60}", 3),
    ("notion-token", "secret_", r"(?=[A-Za-z]{0,43}\d)[A-Za-z0-9]{43}", 3.3),
    ("postman-key", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}", 2.5),
    ("postman-key", "PMAT-", r"[A-Z0-9]{26}", 2.5),
    ("figma-token", "figd_ figo_ figu_ figoh_ figor_ figua_ figur_", r"[A-Za-z0-9_-]{36,60}", 3),
    ("airtable-token", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}", 3),
    ("dropbox-token", "sl. sl.u.", r"[A-Za-z0-9_-]{100,2000}", 3.5),
    ("hubspot-token", "pat-na1- pat-na2- pat-eu1- pat-ap1- pat-au1-", _UUID, 2.5),
    ("hubspot-app-key", "eu1- na1- na2-", r"[a-f0-9]{4}(?:-[a-f0-9]{4}){3,7}[a-f0-9-]{0,20}", 3),
    ("typeform-token", "tfp_", r"[A-Za-z0-9_.=-]{40,80}", 3),
    ("contentful-token", "CFPAT-", r"[A-Za-z0-9_-]{43}", 3),
    ("mapbox-token", "sk.eyJ pk.eyJ tk.eyJ", r"[A-Za-z0-9_-]{20,300}\.[A-Za-z0-9_-]{20,40}", 3),
    ("launchdarkly-key", "sdk- mob- api-", _UUID, 3),
    ("facebook-token", "EAA", r"(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{60,400}", 3.3),
    ("instagram-token", "IGQV IGAA IGQW", r"[A-Za-z0-9_-]{60,300}", 3),
    ("twitter-token", "AAAAAAAAAAAAAAAA", r"[A-Za-z0-9%]{60,130}", 2.5),
    ("salesforce-token", "00D", r"[A-Za-z0-9]{12}(?:[A-Za-z0-9]{3})?![A-Za-z0-9._]{60,200}", 3),
    ("salesforce-refresh-token", "5Aep 3MVG", r"[A-Za-z0-9._=-]{60,200}", 3),
    ("frameio-token", "fio-u-", r"[A-Za-z0-9_=-]{50,80}", 3),
    ("beamer-key", "b_", _MIXED + r"[A-Za-z0-9=_/-]{44}", 4),
    ("readme-key", "rdme_", r"[a-z0-9]{70}", 3),
    ("clickup-token", "pk_", r"\d{6,9}_[A-Z0-9]{32}", 3),
    ("sanity-token", "sk", _MIXED + r"[A-Za-z0-9]{78,180}", 4),
    ("adobe-secret", "p8e- p8-", r"[A-Za-z0-9]{32}", 3),
    ("trello-token", "ATTA", r"[a-f0-9]{60,80}", 3),
    ("zuplo-key", "zpka_", r"[a-z0-9]{32}_[a-z0-9]{8}", 3),
    ("apify-token", "apify_api_", r"[A-Za-z0-9]{30,50}", 3),
    ("browserbase-key", "bb_live_", r"[A-Za-z0-9_-]{20,40}", 3),
    ("alchemy-key", "alcht_", r"[A-Za-z0-9]{30}", 3),
    ("cal-key", "cal_live_ cal_test_ cal_", _HEX32, 3),
    ("liveblocks-key", "sk_dev_ pk_dev_", r"[A-Za-z0-9_-]{40,80}", 3),
    ("teamwork-token", "tkn.v1_", r"[A-Za-z0-9+/=_-]{40,200}", 3),
    ("blynk-secret", "oa2-client-id_", r"[A-Za-z0-9_-]{30,40}", 3),
    # Data.
    ("databricks-token", "dapi dose dkea dsapi", r"[a-h0-9]{32}(?:-\d{1,2})?", 2.5),
    ("supabase-key", "sbp_", r"(?:v0_|oauth_)?[a-f0-9]{40}", 2.5),
    ("supabase-key", "sb_secret_", r"[A-Za-z0-9_-]{20,60}", 2.5),
    ("planetscale-token", "pscale_", r"[a-z]{2,5}_[A-Za-z0-9_.=-]{30,80}", 2.5),
    ("neon-key", "napi_", r"[a-z0-9]{40,80}", 3),
    ("mongodb-atlas-key", "mdb_sa_sk_", r"[A-Za-z0-9_-]{36,50}", 3),
    ("aiven-password", "AVNS_", r"[A-Za-z0-9_-]{19,30}", 3),
    ("aiven-token", "aivenv1", r"[A-Za-z0-9+/=]{100,400}", 3),
    ("clickhouse-key", "4b1d", r"[A-Za-z0-9]{38}", 3),
    ("elastic-key", "essu_", r"[A-Za-z0-9=+/]{40,200}", 3),
    ("confluent-secret", "cflt", r"[A-Za-z0-9+/]{60}", 3),
    ("snowflake-token", "ver:1-hint:", r"\d{1,20}-[A-Za-z0-9+/=_-]{40,600}", 3),
    ("dbt-token", "dbtc_ dbtu_", r"[A-Za-z0-9_-]{30,60}={0,2}", 3),
    ("milvus-key", "db_", r"(?=[a-f]{0,40}\d)[a-f0-9]{32,48}", 3),
    ("tinybird-token", "p.eyJ", r"[A-Za-z0-9_.-]{60,400}", 3),
    ("ionic-token", "ion_", r"[A-Za-z0-9]{42}", 3),
    ("inngest-key", "signkey-prod- signkey-test- signkey-branch-", r"[a-f0-9]{32,64}", 3),
    ("trigger-key", "tr_dev_ tr_prod_ tr_stg_ tr_pat_", r"[A-Za-z0-9]{20,60}", 3),
)

SHAPES: tuple[tuple[str, tuple[str, ...], str, float], ...] = (
    ("azure-client-secret", ("Q~",), r"(?<![~.-])[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~.-])", 3),
    ("azure-key", ("JQQJ99", "ACDb", "AzFu", "AzSe", "AIoT", "+ASt", "+ABa", "+AMC", "APIM", "+ACR"), r"[A-Za-z0-9+/]{20,80}(?:JQQJ99|\+?ACDb|AzFu|AzSe|AIoT|\+ASt|\+ABa|\+AMC|APIM|\+ACR)[A-Za-z0-9+/]{5,50}={0,2}", 4),
    ("azure-devops-token", ("AZDO",), r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}", 3),
    ("aws-cognito-pool", ("-1:", "-2:", "-3:"), r"(?:us|eu|ap|sa|ca|af|me|cn)-[a-z]{4,9}-\d:" + _UUID, 3),
    # Twelve digits, a colon and random bytes, in base64.
    ("jira-token", ("O",), r"(?:[MNO][DTjz][AEIMQUYcgk][w-z0-5]){4}O[g-v][A-Za-z0-9+/]{26}", 3.5),
    ("terraform-token", (".atlasv1.",), r"[A-Za-z0-9]{10,20}\.atlasv1\.[A-Za-z0-9_=-]{50,80}", 3),
    ("mailchimp-key", ("-us",), r"[A-Za-z0-9]{32}-us\d{1,2}", 3),
    ("mailgun-signing", ("-",), r"[a-f0-9]{32}-[a-f0-9]{8}-[a-f0-9]{8}", 3),
    ("newrelic-key", ("NRAL",), r"[a-z0-9]{30,36}NRAL", 2.5),
    ("discord-token", (".",), r"(?<![.-])[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_.-])", 4),
    ("telegram-token", (":AA",), r"(?<!:)\d{8,10}:AA[A-Za-z0-9_-]{30,36}(?![A-Za-z0-9_-])", 3),
    ("asana-token", ("/1",), r"(?<!/)[0-2]/\d{14,18}(?:/\d{14,18})?:[a-f0-9]{32}", 3),
    ("facebook-app-token", ("|",), r"\d{13,17}\|[A-Za-z0-9_-]{24,30}", 3.5),
    ("maxmind-key", ("_mmk",), r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", 3),
    ("dropbox-key", ("AAAAAAAAAA",), r"[A-Za-z0-9]{11}A{10}[A-Za-z0-9=_-]{43}", 3),
    ("firebase-messaging-key", (":APA91b",), r"[A-Za-z0-9_-]{7,25}:APA91b[A-Za-z0-9_-]{100,200}", 3),
    ("yandex-token", ("t1.",), r"t1\.[A-Z0-9a-z_-]{1,200}={0,2}\.[A-Za-z0-9_-]{86}={0,2}", 3.5),
    ("convex-key", ("|",), r"(?:prod|dev|preview):[a-z0-9-]{5,60}\|[A-Za-z0-9+/=]{40,400}", 3),
    ("atlassian-token", (":ATATT",), r":ATATT3[A-Za-z0-9_=-]{40,600}", 3),
    ("password-hash", ("$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$y$", "$7$", "$argon2", "$apr1$"), r"\$(?:1|2[aby]|5|6|7|y|apr1|argon2i?d?)\$[./A-Za-z0-9$=,+-]{22,200}", 2.5),
)

SERVICES: tuple[tuple[str, tuple[str, ...], str, float], ...] = (
    ("aws-secret-key", ("aws", "amazon", "secretaccesskey"), r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])", 4),
    ("twilio-auth", ("twilio",), _HEX32, 3),
    ("postmark-token", ("postmark",), _UUID, 3),
    ("datadog-key", ("datadog", "dd_api", "dd_app", "dd-api", "dd-app"), rf"{_HEX40}|{_HEX32}", 3),
    ("pagerduty-key", ("pagerduty",), rf"{_HEX32}|{_DIGIT}[A-Za-z0-9+_-]{{20}}", 3.5),
    ("airtable-key", ("airtable",), r"key[A-Za-z0-9]{14}", 3),
    ("dropbox-key", ("dropbox",), r"(?=[a-z]{0,15}\d)[a-z0-9]{15}|[A-Za-z0-9_-]{64}", 3),
    ("ngrok-token", ("ngrok",), r"[A-Za-z0-9]{27}_[A-Za-z0-9]{20,24}", 3.5),
    ("cloudflare-token", ("cloudflare", "cf_api", "cf-api", "cf_dns", "x-auth-key"), rf"[a-f0-9]{{37}}|{_DIGIT}[A-Za-z0-9_-]{{40}}", 3.5),
    ("vercel-key", ("vercel",), _DIGIT + r"[A-Za-z0-9]{24}", 3.5),
    ("heroku-token", ("heroku",), _UUID, 3),
    ("okta-token", ("okta", "ssws"), r"00[A-Za-z0-9_-]{40}", 3.5),
    ("algolia-key", ("algolia",), _HEX32, 3),
    ("codecov-token", ("codecov",), rf"{_UUID}|{_HEX32}", 3),
    ("snyk-token", ("snyk",), _UUID, 3),
    ("travis-token", ("travis",), _DIGIT + r"[A-Za-z0-9_-]{22}", 3.5),
    ("coinbase-key", ("coinbase",), _DIGIT + r"[A-Za-z0-9_-]{64}", 3.5),
    ("linode-token", ("linode",), _HEX64, 3),
    ("hetzner-token", ("hcloud", "hetzner"), r"[A-Za-z0-9]{64}", 3.5),
    ("fastly-token", ("fastly",), _DIGIT + r"[A-Za-z0-9_-]{32}", 3.5),
    ("zerotier-key", ("zerotier",), _DIGIT + r"[A-Za-z0-9]{32}", 3.5),
    ("sauce-key", ("saucelabs", "sauce_"), _UUID, 3),
    ("ai21-key", ("ai21",), _DIGIT + r"[A-Za-z0-9]{32}", 3.5),
    ("wandb-key", ("wandb",), _HEX40, 3),
    ("deepgram-key", ("deepgram",), _HEX40, 3),
    ("logtail-token", ("logtail", "betterstack"), _DIGIT + r"[A-Za-z0-9]{24}", 3.5),
    ("webflow-token", ("webflow",), _HEX64, 3),
    ("upstash-token", ("upstash",), r"A[A-Za-z0-9_-]{30,100}={0,2}", 3.5),
)

CONTEXTS: tuple[tuple[str, tuple[str, ...], str, float], ...] = (
    ("putty-key", ("putty-user-key",), r"Private-Lines: \d{1,4}\s(?P<s>(?:[A-Za-z0-9+/=]{1,80}\s?){1,200})", 3),
    ("jwk", ('"kty',), r"\"(?:d|p|q|dp|dq|qi|k)\\{0,3}\"\s{0,3}:\s{0,3}\\{0,3}\"(?P<s>[A-Za-z0-9_=-]{16,2000})", 3),
    ("wireguard-key", ("privatekey", "presharedkey"), r"(?:PrivateKey|PresharedKey)\s{0,3}=\s{0,3}(?P<s>[A-Za-z0-9+/]{43}=)", 3),
    ("oracle-key", ("ocid1.",), r"(?P<s>ocid1\.(?:credential|vaultsecret|customersecretkey)\.[a-z0-9.-]{10,140})", 3),
    ("kubeadm-token", ("--token",), r"--token[= ](?P<s>[a-z0-9]{6}\.[a-z0-9]{16})", 3),
    ("slack-webhook", ("hooks.slack.com",), r"hooks\.slack\.com(?P<s>/(?:services|workflows|triggers)?/?[A-Za-z0-9+/]{30,120})", 2.5),
    ("discord-webhook", ("/webhooks/",), r"discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks(?P<s>/\d{15,22}/[A-Za-z0-9_-]{60,80})", 3),
    ("teams-webhook", ("office.com/webhook",), r"office\.com(?P<s>/webhook(?:b2)?/[a-f0-9@-]{70,80}/IncomingWebhook/[a-f0-9]{32}/[a-f0-9-]{36}[A-Za-z0-9/_-]{0,60})", 3),
    ("power-automate-url", ("logic.azure.com",), r"logic\.azure\.com(?::443)?/workflows/(?P<s>[a-f0-9]{32}/triggers/[^\s\"']{20,400})", 3),
    ("zapier-webhook", ("hooks.zapier.com",), r"hooks\.zapier\.com/hooks/catch/(?P<s>[A-Za-z0-9]{4,12}/[A-Za-z0-9]{6,12})", 2),
    ("feishu-webhook", ("/bot/v2/hook/",), r"/open-apis/bot/v2/hook/(?P<s>[a-f0-9-]{36})", 3),
    ("infura-key", ("infura.io",), r"infura\.io/(?:ws/)?v3/(?P<s>[a-f0-9]{32})", 3),
    ("alchemy-key", ("alchemy.com",), r"alchemy\.com/v2/(?P<s>[A-Za-z0-9_-]{32})", 3),
    ("expo-token", ("exponentpushtoken",), r"ExponentPushToken\[(?P<s>[A-Za-z0-9_-]{22})", 3),
    ("otp-uri", ("otpauth://",), r"otpauth://[^\s\"']{1,200}[?&]secret=(?P<s>[A-Za-z2-7]{16,128})", 2),
    ("sentry-dsn", ("sentry", "ingest."), r"https?://(?P<s>[a-f0-9]{32}(?::[a-f0-9]{32})?)@[a-z0-9.-]{0,60}(?:sentry|ingest)", 3),
    ("azure-storage-key", ("accountkey",), r"(?i)AccountKey[\"']?\s{0,2}[=:]\s{0,2}[\"']?(?P<s>[A-Za-z0-9+/]{60,90}={0,2})", 3.5),
    ("azure-shared-access-key", ("sharedaccesskey",), r"(?i)SharedAccessKey\s{0,2}=\s{0,2}(?P<s>[A-Za-z0-9+/]{42,88}={0,2})", 3),
    ("azure-sas", ("sig=",), r"[?&;]sig=(?P<s>[A-Za-z0-9%+/]{42,120}(?:%3[Dd]|=){0,2})", 3),
    ("url-password", ("://",), r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s/@:\"'<>`]{0,100}(?:@[^\s/@:\"'<>`]{1,60})?:(?P<s>[^\s/\"'<>`]{1,200})(?=@)", 0),
    ("url-token", ("://",), r"(?i)\b(?:https?|git|ssh)://(?P<s>[A-Za-z0-9_.-]{20,250})(?::x-oauth-basic)?@", 3),
    ("url-parameter", ("?", "&"), r"(?i)[?&](?:access_?token|id_?token|refresh_?token|api_?key|apikey|token|auth|secret|client_?secret|password|passwd|pwd|signature|sign|hmac|x-amz-credential|x-amz-signature|x-amz-security-token|x-goog-signature|credential|subscription-key|key|code)=(?:&quot;)?(?P<s>[^&\s\"'<>#`)\\]{8,1000})", 2.5),
    ("auth-header", ("authorization",), r"(?i)authorization[\\\"']{0,4}\s{0,3}[:=,]\s{0,3}[\\\"'f]{0,4}(?:(?:basic|bearer|token|digest|apikey|api-key|ssws|bot|key|negotiate|ntlm|oauth|splunk|snowflake|hmac|genie\s?key|aws4-hmac-sha256)\s{1,3})?(?P<s>[^\s\"',;\\<>`]{8,4000})", 2.5),
    ("bearer-token", ("bearer",), r"(?i)\bbearer[\s:=]{1,3}[\"']?(?P<s>[A-Za-z0-9._~+/=-]{16,4000})", 3),
    ("basic-auth", ("basic",), r"(?i)\bbasic\s{1,3}(?P<s>[A-Za-z0-9+/]{15,400}={1,2}|(?=[A-Za-z+/]{0,40}\d)[A-Za-z0-9+/]{20,400})(?![A-Za-z0-9+/=])", 3.3),
    ("cookie", ("cookie",), r"(?i)\b(?:set-)?cookie[\\\"']{0,4}\s{0,3}[:=]\s{0,3}[\\\"']{0,3}(?P<s>[^\r\n\"'\\]{12,4000})", 2.5),
    ("key-header", ("x-", "api-key", "apikey", "private-token", "-key:", "-token:"), r"(?i)\b(?:x-[a-z-]{0,30}(?:key|token|secret|auth|signature)|api-?key|private-token|job-token|deploy-token|dd-application-key|ocp-apim-subscription-key)[\\\"']{0,4}\s{0,3}[:=]\s{0,3}[\\\"']{0,3}(?P<s>[^\s\"',;\\<>`]{8,2000})", 2.5),
    ("docker-auth", ("auth",), r"\"(?:auth|identitytoken|_auth)\\?\"\s{0,3}:\s{0,3}\\?\"(?P<s>[A-Za-z0-9+/_-]{12,2000}={0,2})", 3),
    ("npm-auth", ("_auth",), r"(?i)_auth(?:token)?\s{0,2}=\s{0,2}[\"']?(?P<s>[A-Za-z0-9+/_=-]{12,2000})", 2.5),
    ("xml-value", ("</",), r"(?i)<(?:[a-z]{1,20}[:_-])?(?:[a-z]{0,20}password|passwd|pwd|passphrase|secret|token|api-?key|private-?key|client-?secret|access-?token)(?:\s[^<>]{0,80})?>(?P<s>[^<>\s]{4,500})</", 0),
    ("xml-attribute", ("value=",), r"(?i)(?:name|key)=[\"'][a-z0-9_.-]{0,40}(?:password|passwd|pwd|secret|token|api-?key)[\"']\s{1,4}value=[\"'](?P<s>[^\"'\s]{4,500})", 0),
    ("netrc", ("password",), r"(?i)\blogin\s{1,8}\S{1,100}\s{1,8}password\s{1,8}(?P<s>[^\s\"'`]{4,200})", 0),
    ("mysql-flag", (" -p",), r"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mysqlsh|mariadb|mariadb-dump|mongo|mongosh|mongodump|mongorestore)\b[^\n|;&]{0,200}?\s-p[\"']?(?P<s>[^\s\"'`|;&-][^\s\"'`|;&]{2,200})", 0),
    ("login-flag", (" -p", " -a", " -w", " -u"), r"\b(?:sshpass\s{1,3}-p|(?:docker|podman|helm registry|nerdctl|buildah|skopeo|az|oc|cf|heroku)\s{1,3}login\b[^\n|;&]{0,200}?\s-p|redis-cli\b[^\n|;&]{0,100}?\s-a|ldap\w{2,12}\b[^\n|;&]{0,200}?\s-w|(?:zip|7z[a]?|unzip|rar)\s[^\n|;&]{0,100}?-[pP]|smbclient\b[^\n|;&]{0,100}?-U\s{0,2}[^\s%]{1,60}%|net\s{1,2}use\b[^\n|;&]{0,100}?/user:\S{1,60})\s{0,3}[\"']?(?P<s>[^\s\"'`|;&]{4,300})", 0),
    ("curl-user", (" -u", "--user", "-u "), r"(?:(?<![\w-])-u|\s--(?:proxy-)?user)[\s=]{0,3}[\"']?[^\s:\"'`/]{1,100}:(?P<s>[^\s\"'`]{3,300})", 0),
    ("openssl-pass", ("pass:",), r"(?i)-pass(?:in|out)?\s{1,3}[\"']?pass:(?P<s>[^\s\"'`]{3,200})", 0),
    ("secure-string", ("securestring",), r"(?i)ConvertTo-SecureString\b(?:\s{1,3}-(?:String|AsPlainText|Force))*\s{1,3}[\"']?(?P<s>[^\s\"'`|;-][^\s\"'`|;]{3,200})", 0),
    ("sql-password", ("identified", "password"), r"(?i)(?:\bidentified\s{1,3}(?:with\s{1,3}[\w'\"]{1,60}\s{1,3})?(?:by|as)(?:\s{1,3}password)?|\b(?:with|encrypted|set|user|role|login)[ \t]{1,3}(?:[^\n;'\"]{0,80}?[ \t])?password(?:\s{1,3}for\s[^\n=;]{1,60})?)\s{0,3}(?:=\s{0,3}|\s)(?:password\()?\\{0,2}[\"'](?P<s>[^\"'\n\\]{3,200})(?=[\\\"'])", 0),
    ("sql-password", ("identified", "password"), r"(?i)\b(?:create|alter|grant)\s[^\n;]{0,150}?\b(?:identified\s{1,3}by|(?:with|login|encrypted)\s{1,3}password)\s{1,3}(?P<s>[^\s\"';()]{4,200})", 0),
)

# Names that give the value next to them away, in small letters: of passwords (p), which may be any word, of
# tokens (t), which look random, and of what is only called a key (k), which must look very random.
NAMES = (
    r"(?P<p>p(?:a?s{1,2}w(?:or|rd?|o)?d|ass(?:word|phrase|code|wrd|w)?|wd|w)(?![a-z]{0,2}ive|ed|ing|en|port|es\b))"
    r"|(?P<t>(?:api|app|access|account|admin|auth|authentication|authorization|client|consumer|crypto|data|"
    r"deploy|encryption|hmac|host|instance|integration|jwt|license|maps|master|mgmt|private|project|rest|secret|send|server|service|session|"
    r"shared|sign|signing|storage|subscription|user|webhook|write|read)[_.\- ]?key|connection[_-]?string|dsn|bearer|passkey|sessionid|"
    r"secret|token|credential)"
    r"|(?P<k>key|authentication|authorization|auth|api|salt|nonce|signature|cert|hash_?secret|otp|totp|2fa|pat)"
)
NAME_KEYWORDS = (
    *(
        "pass",
        "pw",
        "pss",
        "psw",
        "secret",
        "token",
        "credential",
        "key",
        "auth",
        "dsn",
        "connection",
    ),
    *("api", "salt", "nonce", "bearer", "pat", "otp", "paswd"),
)
# Parts of a name after which a value is about a secret, not one.
ABOUT = frozenset(
    "algorithm algorithms attempts attr attribute backend check class column cost count dialog dir enabled encoder error errors "
    "exp expire expires expiration expiry field fields file filename files form format generator handler hash hashed hasher hashers help hint id "
    "ids index input key_id label len length level limit link list location manager max message min mode name names "
    "needed option options page path placeholder policy pos prompt protected provider regex required requirements reset rotation rule rules "
    "schema screen service size source spec state status store strength table text time timeout title ttl type types uri url used "
    "usage user validator validators view width arn ref reference version prefix suffix alias env var variable budget per".split()
)
ABOUT_BEFORE = frozenset(
    "allow ask bad change check confirm current empty enter expired expires forgot forgotten get has hide incorrect input invalid is "
    "missing need needs no not num require required requires reset show max min n set the toggle update use valid "
    "validate verify without wrong your next prev last first sort primary foreign public partition cache hash idempotency dedupe lock etag".split()
)
NOT_PASS = frozenset(
    "by com encom tres sur over under multi single last kee bit one two three first second third re eye eyes".split()
)
GLUED_PW = frozenset(
    "user db root admin my default wifi ssh ftp login smtp mysql sql new old id".split()
)
STOP_WORDS = frozenset(
    "a an and are argument arguments as at but by can from flag flags for has if in instead into is it may must not of on "
    "only option options or parameter prompt should so stdin than that the then this to unless value via was when "
    "which will with you your file optional required empty keep".split()
)


# Words that are put where a value belongs.
FILLERS = frozenset(
    "a access account admin an anonymous aws mysql postgres any api apikey app ask auth auto bad bar basic baz bearer bool boolean bytes change changeit "
    "changeme changethis char client correct credential credentials db default demo disabled dummy eggs email empty enabled "
    "enter env example fake field file foo foobar guest hash here hidden host hostname id input insert int integer invalid it key keys "
    "localhost login masked me mock my name new nil no none null number object off old on optional our pass passphrase passwd "
    "password passwords placeholder plain private prompt put pw pwd redacted refresh replace replaceme required root sample "
    "secret secrets secretstr self server service session some spam stdin str string test tester testing text the this "
    "todo token tokens true type undefined unknown user username users valid value varchar with wrong yes your false abc abcd abcdef "
    "bob alice foobarbaz yourpassword mypassword mypass mysecret mytoken testpass testpassword userpassword dbpassword newpassword "
    "oldpassword rootpassword adminpassword yoursecret yourtoken yourkey yourapikey accesstoken authtoken idtoken".split()
)
# fmt: on
