"""Tokens that can be told by their own shape, written from each issuer's public format.

Each rule: kind, lower-case keywords of which one must occur, pattern, least entropy in bits per
character. A pattern's group "s" is the secret; without one the whole match is. Long blocks come
first, so that nothing masks a part of them; a shorter prefix comes after the longer ones. No
keyword means: look whenever there is a word of 34 characters or more.
"""
# ruff: noqa: E501 - a pattern is read whole

from __future__ import annotations

__all__ = ["TOKEN_RULES"]

# No letter, digit or underscore beside the token: a longer word is another word. The last letter
# of an escape (`\n`, `%3D`) is none.
_B = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt])|(?<=%[2-7][0-9A-F]))"
_E = r"(?![A-Za-z0-9_])"

# A key that is cut off is a key to the end of the text. The lines' own prefixes (diffs, quotes,
# line numbers) and escaped newlines are part of the block.
_PEM = (
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----END )[\s\S]){0,20000}"
    r"(?:-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----)?"
)

# fmt: off
TOKEN_RULES: tuple[tuple[str, tuple[str, ...], str, float], ...] = (
    ("private-key", ("private key",), _PEM, 0),
    ("putty-key", ("putty-user-key",), r"Private-Lines: \d{1,4}\s(?P<s>(?:[A-Za-z0-9+/=]{1,80}\s?){1,200})", 3),
    ("jwt", ("eyj",), _B + r"(?<!-)eyJ[A-Za-z0-9_-]{8,2000}\.(?:eyJ)?[A-Za-z0-9_-]{8,4000}(?:\.[A-Za-z0-9_-]{0,2000}){0,3}", 3),
    ("age-key", ("age-secret-key-1",), r"(?i)AGE-SECRET-KEY-1[0-9A-Z]{40,64}", 3),
    # Clouds.
    ("aws-access-key", ("akia", "asia", "abia", "acca"), _B + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}" + _E, 3),
    ("aws-bedrock-key", ("absk",), _B + r"ABSK[A-Za-z0-9+/]{60,300}={0,2}", 3),
    ("aws-secret-key", ("aws",), r"(?i)aws.{0,40}?(?:secret|sk).{0,40}?[\"'=:\s]{1,8}(?-i:(?P<s>[A-Za-z0-9/+]{40}))(?![A-Za-z0-9/+=])", 4),
    ("google-api-key", ("aiza",), _B + r"AIza[A-Za-z0-9_-]{35}" + _E, 3),
    ("google-oauth-secret", ("gocspx-",), _B + r"GOCSPX-[A-Za-z0-9_-]{28}" + _E, 3),
    ("google-oauth-token", ("ya29.",), _B + r"ya29\.[A-Za-z0-9_-]{20,600}", 3),
    ("google-refresh-token", ("1//0",), _B + r"(?<!/)1//0[A-Za-z0-9_-]{40,200}", 3.5),
    ("azure-storage-key", ("accountkey",), r"(?i)AccountKey\s{0,2}=\s{0,2}(?P<s>[A-Za-z0-9+/]{86}==)", 3.5),
    ("azure-shared-access-key", ("sharedaccesskey=",), r"(?i)SharedAccessKey\s{0,2}=\s{0,2}(?P<s>[A-Za-z0-9+/]{42,88}={0,2})", 3),
    ("azure-sas", ("sig=",), r"[?&;]sig=(?P<s>[A-Za-z0-9%+/]{42,120}(?:%3[Dd]|=){0,2})", 3),
    ("azure-client-secret", ("q~",), _B + r"(?<![~.-])[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~.-])", 3),
    ("digitalocean-token", ("doo_v1_", "dop_v1_", "dor_v1_"), _B + r"do[opr]_v1_[a-f0-9]{64}" + _E, 3),
    ("alibaba-key", ("ltai",), _B + r"LTAI[A-Za-z0-9]{12,26}" + _E, 3),
    ("cloudflare-origin-key", ("v1.0-",), _B + r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}" + _E, 3),
    ("flyio-token", ("fo1_", "fm1", "fm2_"), _B + r"(?:fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{80,600}={0,3})", 3),
    ("scaleway-key", ("scw",), _B + r"SCW[A-Z0-9]{17}" + _E, 3),
    ("heroku-key", ("hrku-",), _B + r"HRKU-[A-Za-z0-9_-]{36,80}" + _E, 3),
    # Code hosting and building.
    ("github-pat", ("ghp_", "github_pat_"), _B + r"(?:ghp_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9_]{22,255})" + _E, 3),
    ("github-token", ("gho_", "ghu_", "ghs_", "ghr_"), _B + r"gh[ousr]_[A-Za-z0-9_.-]{36,600}" + _E, 3),
    ("gitlab-token", ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-", "glffct-"), _B + r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_.=-]{16,400}", 3),
    ("gitlab-runner-token", ("gr1348941",), _B + r"GR1348941[A-Za-z0-9_-]{20}" + _E, 3),
    ("bitbucket-token", ("atbb",), _B + r"ATBB[A-Za-z0-9]{24,40}(?:[A-F0-9]{8})?" + _E, 3),
    ("atlassian-token", ("atatt3", "atctt3", "atcctt"), _B + r"(?:ATATT3|ATCTT3|ATCCTT)[A-Za-z0-9_=-]{40,400}", 3),
    ("npm-token", ("npm_",), _B + r"npm_[A-Za-z0-9]{36}" + _E, 3),
    ("pypi-token", ("pypi-age",), _B + r"pypi-AgE[A-Za-z0-9_-]{50,1000}", 3),
    ("rubygems-key", ("rubygems_",), _B + r"rubygems_[a-f0-9]{48}" + _E, 3),
    ("crates-token", ("cio",), _B + r"cio[A-Za-z0-9]{32}" + _E, 3.5),
    ("nuget-key", ("oy2",), _B + r"oy2[a-z0-9]{43}" + _E, 3),
    ("docker-token", ("dckr_",), _B + r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,40}" + _E, 3),
    ("jfrog-token", ("akcp", "cmvmdgtu"), _B + r"(?:AKCp[A-Za-z0-9]{60,80}|cmVmdGtu[A-Za-z0-9]{40,80})" + _E, 3),
    ("terraform-token", (".atlasv1.",), _B + r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}", 3),
    ("pulumi-token", ("pul-",), _B + r"pul-[a-f0-9]{40}" + _E, 3),
    ("buildkite-token", ("bkua_",), _B + r"bkua_[a-f0-9]{40}" + _E, 3),
    ("circleci-token", ("ccipat_", "ccipr"), _B + r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{16,40}_[a-f0-9]{40}" + _E, 3),
    ("sonar-token", ("squ_", "sqp_", "sqa_"), _B + r"sq[upa]_[a-f0-9]{40}" + _E, 3),
    ("vault-token", ("hvs.", "hvb.", "hvr."), _B + r"hv[sbr]\.[A-Za-z0-9_-]{24,300}", 3),
    ("doppler-token", ("dp.",), _B + r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,40}\.)?[A-Za-z0-9]{40,44}" + _E, 3),
    ("infisical-token", ("st.",), _B + r"st\.[a-f0-9-]{24,36}\.[a-f0-9]{32}\.[a-f0-9]{32}" + _E, 3),
    ("onepassword-token", ("ops_ey",), _B + r"ops_eyJ[A-Za-z0-9+/=_-]{200,2000}", 3),
    ("onepassword-key", ("a3-",), _B + r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}" + _E, 3),
    ("vercel-token", ("vcp_", "vci_", "vca_", "vcr_", "vck_"), _B + r"vc[piark]_[A-Za-z0-9]{24,80}" + _E, 3),
    ("netlify-token", ("nfp_", "nfk_"), _B + r"nf[pkuco]_[A-Za-z0-9]{36}" + _E, 3),
    # Models.
    ("anthropic-key", ("sk-ant-",), _B + r"sk-ant-[A-Za-z0-9_-]{20,200}", 3),
    ("openrouter-key", ("sk-or-",), _B + r"sk-or-(?:v1-)?[a-f0-9]{40,80}" + _E, 3),
    ("openai-key", ("sk-",), _B + r"(?<!-)sk-(?:proj-|svcacct-|admin-|None-)?(?=[A-Za-z0-9_-]{0,200}\d)(?=[A-Za-z0-9_-]{0,200}[A-Z])[A-Za-z0-9_-]{20,200}", 3.5),
    ("deepseek-key", ("sk-",), _B + r"sk-(?=[a-f]{0,32}\d)[a-f0-9]{32}" + _E, 3),
    ("huggingface-token", ("hf_", "api_org_"), _B + r"(?:hf_[A-Za-z]{34}|hf_[A-Za-z0-9]{34,40}|api_org_[A-Za-z0-9]{34})" + _E, 3),
    ("groq-key", ("gsk_",), _B + r"gsk_[A-Za-z0-9]{48,56}" + _E, 3),
    ("perplexity-key", ("pplx-",), _B + r"pplx-[A-Za-z0-9]{40,60}" + _E, 3),
    ("replicate-token", ("r8_",), _B + r"r8_[A-Za-z0-9_-]{37,40}" + _E, 3),
    ("xai-key", ("xai-",), _B + r"xai-[A-Za-z0-9]{60,100}" + _E, 3),
    ("langsmith-key", ("lsv2_",), _B + r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}" + _E, 3),
    ("tavily-key", ("tvly-",), _B + r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{28,40}" + _E, 3),
    ("pinecone-key", ("pcsk_",), _B + r"pcsk_[A-Za-z0-9_]{50,90}" + _E, 3),
)
# fmt: on
