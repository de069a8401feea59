"""Words that say what the name next to them is."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SUBJECT_VERBS = _words(
    "is isn't was wasn't are were has hasn't had does doesn't did didn't can can't cannot will "
    "won't would should may might must also only still now never always already just needs "
    "wants uses supports depends replaced replaces returns throws keeps breaks broke drops "
    "ships runs works fails failed requires provides handles lets makes gives allows seems "
    "looks comes goes gets doesn vs or and"
)
# People do these; so do others.
AFTER_PERSON = _words(
    "said says wrote writes asked asks thinks thought told suggested suggests mentioned "
    "mentions reported reports agreed agrees decided decides wants wanted prefers preferred "
    "likes liked hates joined left lives lived reviewed approved owns maintains noticed pushed "
    "committed explained confirmed proposed recommends recommended works worked knows believes "
    "complained promised volunteered interviewed presented answered replied pointed discovered "
    "and is was has will can covers"
)
DONE_BY_PERSON = AFTER_PERSON - _words("and is was has can")
# Only people do these.
STRONG_AFTER_PERSON = _words(
    "said says wrote asked asks thinks told suggested suggests mentioned agreed prefers likes "
    "hates lives reviewed approved noticed explained proposed recommends replied volunteered "
    "complained pushed"
)
AFTER_HANDLE = STRONG_AFTER_PERSON | _words("answer posted came you can could for thanks please")
BEFORE_PERSON = _words(
    "by ask asked asking ping pinged thanks thank thx cc hi hey hello dear mr mr. mrs mrs. ms "
    "ms. dr dr. prof prof. from for told tell with and or to credit add sir madam author "
    "contact like as"
)
STRONG_BEFORE_PERSON = _words(
    "by ask asked asking ping pinged thanks thx cc hi hey hello dear mr mr. mrs mrs. ms ms. dr "
    "dr. prof prof. told tell quoting h/t"
)
# Right before someone's name.
POSITIONS = _words(
    "ceo cto cfo coo director manager lead engineer designer developer founder co-founder author "
    "editor professor researcher colleague coordinator contact chair"
)
BY_PEOPLE = _words(
    "outlined written reviewed authored reported suggested proposed approved requested raised "
    "drafted explained described presented recommended"
)
OWNED_BY_PERSON = _words(
    "answer comment suggestion solution post advice approach branch pr fix idea question example"
)
CLOSINGS = _words(
    "regards thanks cheers greetings sincerely co-authored-by reported-by reviewed-by "
    "signed-off-by acked-by tested-by suggested-by"
)
ANNOTATIONS = _words(
    "Override Autowired Test Component Service Repository Controller Entity Bean Inject "
    "Deprecated Before After Configuration Value Transactional Nullable param return returns "
    "media import property interface implementation end throws see since author override type "
    "types deprecated todo font-face keyframes apply include mixin extend dataclass "
    "staticmethod classmethod decorator pytest app click"
)
# @here is no person, it is all of them.
EVERYONE = _words("here channel everyone all")
SPEAKERS = _words("we i user team i'm i've we're we've")
SPEAKER_VERBS = _words(
    "use uses used using prefer prefers preferred avoid avoids chose choose picked decided "
    "agreed settled went opted switched moved migrated adopted like likes love loves hate hates "
    "dislike dislikes dropped recommend recommends standardized standardised live lives work "
    "works stopped chosen run running built wrote working develop program code visited been "
    "travelled traveled flew grew"
)
BEFORE_SPEAKER_VERB = _words(
    "also now still always never mostly usually only currently just recently finally have has "
    "had do does don't doesn't not no longer really all both are is am 'm 're 've been will be "
    "going to stopped"
)
BEFORE_PLACE = _words("in at to from near around lives living based located visit visiting via")
WHEREABOUTS = _words(
    "lives living based located office offices flight travelling moved moving relocated born "
    "grew team"
)
EMPLOYMENT = _words(
    "works worked working employed engineer engineers developer contact job ceo cto founder "
    "employee intern"
)
BEFORE_COMPANY = _words("at joined pay paid hired")
# Made by a company, not by what it sells.
MADE = _words(
    "created developed built made founded designed invented maintained owned released published "
    "open-sourced acquired bought sponsored announced written"
)
AFTER_COMPANY = _words(
    "created developed built invented maintains bought acquired announced published released "
    "deprecated raised open-sourced hired gave signed sponsors backports employees engineers "
    "support sells owns moved said says open sponsored people left"
)
# Behind the name of those who employ them.
AFTER_EMPLOYER = _words("employee employees headquarters officials shareholders staff")
# With `Service` at the end, an office.
PUBLIC = _words("Civil Government Health National Public Royal State")
ORG_ENDINGS = _words(
    "Inc Ltd LLC GmbH Corp Corporation AG S.A BV Foundation University Institute Labs Bank "
    "Technologies Consulting Association Committee"
)
ORG_HEADS = _words("University Institute Bank Ministry Department Museum")
# With `of` or `for` behind them.
OFFICES = ORG_HEADS | _words(
    "Office Bureau Board Council School College Division Centers Centre Center Chamber Academy "
    "Secretary Agency Authority Commission Committee Institution Foundation Society House"
)
# With `Board` or `Group` behind them; other boards are hardware.
BOARDS = _words(
    "Review Advisory Authorization Oversight Executive Standards Editorial Governing Architecture "
    "Company Interest Leadership Management Steering Supervisory Technical Trustee Trustees Working"
)
# With `of` and a name behind them.
LAND_HEADS = _words("City Commonwealth County Kingdom Province Republic State")
NAME_PARTICLES = _words("van von de da del der di la le bin al dos du ter ten")
NOT_NAMES = _words(
    "MUST SHALL SHOULD REQUIRED RECOMMENDED OPTIONAL MAY NOT "
    "I You He She It We They This That These Those There Here The A An My Your His Her Its Our "
    "Their Who What When Where Why How Which If Then Else And Or But So As At By For From In "
    "Into Of On To With Without Is Are Was Were Be Been Do Does Did Have Has Had Can Could Will "
    "Would Should May Might Must Not No Yes Ok Okay Also Just Only Even Still Now Today "
    "Yesterday Tomorrow Please Thanks Thank Hello Hi Hey Note Todo Fixme Update Edit Having "
    "Someone Somebody Anyone Anybody Everyone Everybody Nobody People Users User Documentation "
    "Docs Author Team Code Error Exception Answer Question Example Sample Let Lets Use Using "
    "Try Make Set Get Add Fix Remove See Any Some All Each Every Both Either Neither Many Most "
    "Few Several Another Other Same Such Than Though Although Because Since Until While Before "
    "After During Once Again However Therefore Thus Hence Maybe Perhaps Sure Sorry Customer "
    "Customers Client Clients Compiler Console Server Manager Boss Management Support"
)
# Of these, what may be a name's second word: Foundation for Public Code.
WITHIN_NAMES = _words("Code Console Compiler Management")
NUMBERED = _words(
    "Version Versions Chapter Figure Table Section Step Part Page Line Level Phase Item "
    "Question Answer Number Day Week Release Sprint Option Case Round Test Exercise Port Room "
    "Floor"
)
NUMBERED_REFERENCES = frozenset({"pr", "mr", "issue", "ticket", "bug"})
PACKAGE_NOUNS = ("package", "crate", "gem", "dependency", "leftovers")
BUMPS = _words(
    "bump bumps bumped bumping update updates updated updating upgrade upgrades upgraded upgrading"
)
PACKAGE_CUES = BUMPS | _words(
    "package packages crate crates gem gems dependency dependency-name leftovers bump bumps bumped "
    "deps deps) gemspec installed required dependencies"
)
PREFIXES = _words(
    "feat fix chore docs doc refactor test tests build ci perf style revert deps TODO FIXME NOTE"
)
LOWER_PREFIXES = frozenset(word.lower() for word in PREFIXES)
# Who decides, by what they do: Deciders: devs, devops.
ROLES = _words("dev devs devops ops qa sre pm pms everyone all leads team")
COMPOUND_TAILS = _words(
    "based backed only like specific style side compatible powered native free ish related "
    "hosted level first"
)
NOT_CODE = _words("snake_case camelCase PascalCase and/or")
ORDINARY = _words(
    "a about above after again all also an and another any are as at base be because before "
    "below both but by can class code could custom data default did different do does each "
    "either empty entire every existing few first following for from full function generic get "
    "given global good had has have he helper her his how i if in inner input into is it its "
    "just last latest left library like local main many me missing more most must my name named "
    "new next no not now npm number of old on one only open or original other our out outer own "
    "package parent particular pip previous private public python recent required right ruby "
    "rust same second set several she should simple since single small so some special specific "
    "standard static such test than that the their them then there these they third this those "
    "three to two type under unused up update use used user using value various very was we "
    "were what when where which while who whole why will with without would wrong you your "
    "common external internal optional installed software debian node third-party open-source "
    "command-line version versions release releases dependencies image images docs"
)
BEFORE_VERSION = _words("version versions v ver release >= <= == > < ~> ->")
BETWEEN_VERSIONS = _words("or and to from through -> not newer than")
BEFORE_STATUS = _words(
    "http returns returned return returning status error errors gives gave got get getting "
    "throws code"
)
AFTER_STATUS = _words("error errors response responses status handler handling page action code")
# Errors that are called by words: the first one, and what may follow it.
NAMED_ERRORS: dict[str, tuple[str, ...]] = {
    "access": ("violation",),
    "assertion": ("error", "failure"),
    "bad": ("gateway",),
    "build": ("error",),
    "compilation": ("error",),
    "compile": ("error",),
    "connection": ("refused", "reset"),
    "division": ("by zero",),
    "divide": ("by zero",),
    "fatal": ("error",),
    "file": ("not found exception", "not found error"),
    "gateway": ("error", "timeout"),
    "index": ("out of range", "out of bounds"),
    "internal": ("server error",),
    "null": ("pointer exception", "reference exception", "pointer", "reference"),
    "nullpointer": ("exception",),
    "out": ("of memory",),
    "parse": ("error",),
    "permission": ("denied",),
    "runtime": ("error", "exception"),
    "segmentation": ("fault", "violation"),
    "stack": ("overflow error", "overflow exception"),
    "syntax": ("error",),
    "type": ("mismatch", "error"),
}
STATUS_FIRST_WORDS = _words("forbidden unauthorized not bad internal service")
STATUS_WORDS = _words(
    "forbidden unauthorized not found bad request gateway internal server error service unavailable"
)
BEFORE_COMMAND = _words("run ran running try do use via with execute")
ENGLISH_COMMANDS = frozenset({"go", "bundle", "gem", "composer", "node"})
AFTER_COMMAND = _words(
    "a again an and as at because before but by did does every fails failed first fixed fixes "
    "for from gave gives hangs if in instead into is it my now of on once or passed passes "
    "returns runs says shows so succeeds takes that the then this to took until wants was when "
    "which while with without works you your after complains breaks"
)
COMMANDS: dict[str, frozenset[str] | None] = {
    "git": _words(
        "add am apply bisect blame branch checkout cherry-pick clean clone commit config diff "
        "fetch fsck gc grep init log merge mv pull push rebase reflog remote reset restore "
        "revert rm show stash status submodule switch tag worktree"
    ),
    "npm": _words(
        "ci install run start test publish init update audit link exec i uninstall outdated build"
    ),
    "pnpm": _words("add install run remove update dlx exec build test i"),
    "yarn": _words("add install run remove upgrade build test start dev"),
    "npx": None,
    "bun": _words("install run add test x build"),
    "pip": _words("install uninstall freeze list show download wheel check"),
    "pip3": _words("install uninstall freeze list show"),
    "uv": _words("pip sync add run lock venv tool build publish"),
    "poetry": _words("add install update lock run build publish shell"),
    "conda": _words("install create activate env update"),
    "python": None,
    "python3": None,
    "pytest": None,
    "node": None,
    "docker": _words(
        "build compose exec images inspect logs login ps pull push restart rm rmi run start "
        "stop system"
    ),
    "docker-compose": _words("build down exec logs ps pull restart run start stop up"),
    "kubectl": _words(
        "apply create delete describe edit exec get logs port-forward rollout scale top"
    ),
    "helm": _words("install upgrade rollback list uninstall template lint repo version"),
    "terraform": _words("apply destroy fmt import init output plan state validate"),
    "ansible-playbook": None,
    "cargo": _words(
        "add bench build check clippy doc fmt install new publish run test tree update"
    ),
    "go": _words("build clean env fmt generate get install list mod run test tool vet work"),
    "make": None,
    "cmake": None,
    "mvn": None,
    "gradle": None,
    "brew": _words("install update upgrade uninstall tap services"),
    "apt": _words("install update upgrade remove"),
    "apt-get": _words("install update upgrade remove"),
    "yum": _words("install update"),
    "dnf": _words("install update"),
    "systemctl": _words("restart start stop status enable disable daemon-reload reload"),
    "journalctl": None,
    "alembic": _words("upgrade downgrade revision current history"),
    "rails": _words("db:migrate server console generate new"),
    "bundle": _words("install exec update"),
    "gem": _words("install update"),
    "composer": _words("install require update"),
    "dotnet": _words("build run test publish add restore new"),
    "ssh": None,
    "scp": None,
    "rsync": None,
    "curl": None,
    "man": None,
    "wget": None,
    "rm": None,
    "cp": None,
    "mv": None,
    "mkdir": None,
    "chmod": None,
    "chown": None,
    "ls": None,
    "cat": None,
    "grep": None,
    "sed": None,
    "awk": None,
    "tail": None,
    "psql": None,
    "pg_dump": None,
    "pg_restore": None,
    "mysql": None,
    "mysqldump": None,
    "redis-cli": None,
    "sqlite3": None,
    "openssl": None,
    "gh": _words("pr issue repo release run auth workflow"),
    "aws": None,
    "gcloud": None,
    "az": None,
    "sudo": None,
    "zapomni": None,
}

# --- Names that the gazetteer does not know -----------------------------------------------

AUTHOR_FIELDS = _words(
    "author authors committer co-authored-by signed-off-by reviewed-by reported-by acked-by "
    "tested-by  suggested-by helped-by thanks-to decider deciders decision-makers owner owners "
    "maintainer  maintainers reviewer reviewers assignee attendees participants present absent "
    "presenter presenters facilitator chair chairman chairperson secretary treasurer president"
)
# A name that ends with one of these is an organization,
ORG_TAILS = _words(
    "co inc ltd llc gmbh corp corporation foundation university institute labs bank technologies "
    "consulting association committee agency ministry department council initiative consortium "
    "alliance bureau commission authority society federation union trust directorate ventures "
    "holdings industries partners administration division parliament sig wg"
)
LEGAL_FORMS = _words("inc ltd llc gmbh corp corporation ag bv company co")
# with one of these a product,
PRODUCT_HEADS = _words(
    "actions agent agents analytics api app assistant bit bot bundle bus cache chat cli client "
    "cloud connect  connector console container controller core database db desktop driver editor "
    "engine explorer  extension firewall flow framework gateway git grafana hub ide kit "
    "kubernetes library linux  manager mesh mode notify operator orm os pay platform plugin plus "
    "postgres prometheus protocol  proxy pub/sub queue registry rest router runner runtime scaler "
    "scheduler sdk search server  serverless shell sign-in stack storage store stream streams "
    "studio suite swarm sync toolbelt  toolkit tools ui vault verify warehouse watch workbench "
    "works worker workspace"
)
# (these only next to a word that is no ordinary one)
PLAIN_HEADS = _words("flow manager mode pay plus rest search stack store watch worker works")
# and with one of these an idea or a rule of its own.
IDEA_HEADS = _words(
    "policy policies process strategy principle principles pattern patterns standard standards "
    "scale model assessment guide guidelines handbook manifesto methodology architecture review "
    "programme program roadmap scheme act regulation license licence code pipeline lifecycle "
    "terms statement agreement notice certification certificate training course exam workshop "
    "event meeting list document page report survey plan budget proposal proposals writers "
    "community channel conference summit meetup hackathon award awards convention conventions"
)
LICENCES = _words("license licence licenses licences licensed")
# Those who have to do with what is named before: Django Fellows.
PEOPLE = _words(
    "ambassadors approvers committers contributors engineers fellow fellows girls leads "
    "maintainers members operators reviewers"
)
# `of` may follow these within a name.
NAME_HEADS = frozenset(word.lower() for word in OFFICES | LAND_HEADS) | _words(
    "bill law theory internet web book game service services controllers plugin plugins toolkit "
    "driver tools studio"
)
# Capitalised after a name, these are not part of it.
COMMON_TAILS = _words(
    "team teams version versions documentation docs users user developers developer cluster "
    "clusters  server servers instance instances account accounts release releases website "
    "support community repository repositories repo maintainers contributors api apis header "
    "headers request requests pull pr prs rfc rfcs"
)
BEFORE_PRODUCT = _words(
    "using use uses used via install installing deploy deploying adopt adopted running run runs "
    "upgrade upgraded integrate chose introduce introduced try tried called named compared "
    "evaluated evaluate investigated tested with"
)
# What words begin with for what one does with people.
WITH_PEOPLE = (
    "agree", "call", "chat", "check", "collab", "coordinat", "discuss", "interview", "meet", "met",
    "pair", "partner", "share", "sharing", "sync", "speak", "spoke", "talk", "together", "work",
)  # fmt: skip
# What people give, before `from` and their name.
GIVEN = _words(
    "advice comments contributions feedback help ideas input learned notes questions review "
    "suggestions"
)
# Formats and protocols that every text is about: named, and looked up by no reader.
EVERYWHERE = _words("CSV DNS HTML HTTP HTTPS JSON UTF-8 XML")
# Where a label is in a program: the Pending Approvals tab.
OF_A_SCREEN = _words(
    "button checkbox column dialog dropdown field link menu option page panel screen section "
    "sidebar tab view window"
)
# Nouns behind what is used: a Kandji account, two Karpenter pods.
AFTER_USED = _words(
    "account accounts app board boards channel channels cluster clusters config configuration "
    "dashboard dashboards instance instances integration integrations plugin plugins pods repo "
    "repository server servers settings ticket tickets version versions workspace workspaces"
)
BEFORE_BRAND = _words(
    "install installing installed deploy deploying deployed adopt adopting adopted evaluate "
    "evaluated evaluating released launched bought acquired"
)
MOVES = _words(
    "migrate migrated migrating migration move moved moving switch switched switching upgrade "
    "upgraded upgrading"
)
# UserID and ParseJSON are code.
ACRONYMS_IN_CODE = _words(
    "ID IDS URL URI HTTP HTTPS JSON XML TLS SSL IP TCP UDP UUID GUID CPU DNS HTML CSS CSV YAML UTC "
    "OK DTO VM UI MAC TTL PDF CLI ASCII UTF SHA RSA AES JWT"
)
CHANGED = _words(
    "introduced fixed added removed deprecated available changed released supported dropped new"
)
BEFORE_TOOL = _words("using via install installed")
OF_A_PRODUCT = _words("api apis sdk")
AFTER_CLASS = _words(
    "class classes object objects instance instances method methods constructor enum struct "
    "interface subclass widget element attribute"
)
# What names in code end with, if they are words of two parts.
CLASS_TAILS = _words(
    "args artifact attribute attributes batch body buffer builder callback chart check collection "
    "collector config "
    "container context counter data delta detector emitter entry enum error event events exporter "
    "factory field fields filter flag flags format handle handler header id ids index info "
    "iterator key keys limit list listener loader location logger map mapper message meter method "
    "mode model name names node object observer option options parent parser path processor "
    "propagator property provider query reader record recorder ref repository request resolver "
    "response "
    "result results root sampler schema scope serializer set setting settings size span spec state "
    "status table text time timestamp token tracer type url validator value values view visitor "
    "wrapper writer"
)
BEFORE_CLASS = _words("class new type enum struct interface extends implements subclass instanceof")
# What only a name does at the beginning of a sentence, if the word is none that texts use.
ACTS = _words(
    "uses depends relies requires supports adopted adopts runs replaces replaced provides created "
    "wrote built maintains owns raises talks connects stores sends reads extends implements wraps "
    "moved migrated switched acquired bought drops dropped"
)
BEFORE_DONE = _words("is was")
DONE = _words(
    "written used built based created developed maintained owned hosted deployed replaced "
    "implemented powered managed founded superseded open-sourced"
)
AFTER_PRODUCT = _words("plugin library framework sdk cli api backend frontend daemon server")
# What a title asks one to do; the name begins behind it.
IMPERATIVES = _words(
    "add allow ask avoid build change check clean configure convert create delete deploy disable "
    "drop enable ensure expose extend fix implement improve install integrate introduce make "
    "merge migrate move reduce refactor remove rename replace run start stop support switch tell "
    "test update upgrade use using write"
)
# The word after is a product of theirs.
VENDORS = _words("amazon aws azure google microsoft apache")
# A sentence begins with these more often than a name does.
STARTERS = frozenset(word.lower() for word in NOT_NAMES) | _words(
    "introduce introducing enable disable fixes fixed closes improve improved improves bump bumps "
    "apply refactor document documents clarify cleanup rework tweak serverless co-authored-by "
    "signed-off-by reviewed-by reported-by acked-by"
)
COMMON_ACRONYMS = _words(
    "ADR ADRS AND OR NOT IF THE TODO FIXME WIP FAQ TBD TBC NB PS OK EOF ID IDS UI UX URL URI "
    "URLS API APIS CPU GPU RAM OS DB IP DNS PR PRS QA CI CD README LICENSE EOL LTS TLDR ASAP "
    "AFAIK IMO FYI ETA NULL TRUE FALSE NONE GET PUT POST PATCH DELETE HEAD OPTIONS SELECT "
    "INSERT UPDATE WHERE FROM NOTE WARNING MB GB KB TB KiB MiB GiB TiB MS UTC GMT AM PM HA AZ VM "
    "VMS PDF CSV RST LLM LLMS RFC RFCS ABC CEO CTO CFO COO CIO VP SVP EVP HR PTO USD EUR GBP MVP "
    "SLA SLAS KPI KPIS ROI E2E"
)
# Elements of HTML that are no other words, and what is thrown: named, and looked up by no reader.
ELEMENTS = _words(
    "div divs iframe iframes td tr tbody thead textarea href onclick onchange onload exception "
    "exceptions"
)
# What examples call a package.
PLACEHOLDERS = _words("x y z a b c foo bar baz name pkg package")
LITERALS = _words(
    "True False None null nil NULL undefined true false NaN NA N/A yes no on off str int float "
    "bool bytes dict list tuple set object any void string number boolean self this cls x y z i "
    "j k n main master GET PUT POST PATCH DELETE HEAD OPTIONS TBD TODO"
)
# An expression or a statement begins with these.
KEYWORDS = _words("not if for while await async import from def class new with")
