// Generated from docs/openapi.json by generate.mjs. Do not edit.

declare namespace Api {
  /** The ack that the source of a message is owed: none. */
  type AckView = {
    /** `none`. */
    mode: string;
    /** `not_needed`. */
    state: string;
  };

  /** Something a person did to a message. */
  type ActEntryView = {
    /** When. */
    at: string;
    /** Who acted. */
    by: string;
    /** The rest. */
    detail: string;
    /** `cancel`, `redrive` or `discard`. */
    what: string;
  };

  /** What acting on a message came to. */
  type ActView = {
    /** The same, as a sentence. */
    detail: string;
    /** Id of the message. */
    message_id: string;
    /** Its turn does not begin before this. */
    not_before?: string | null;
    /** `queued`, `delivering` or `continuing` for one that is sent again; `dropped`; `cancelled` or `stopping`. */
    outcome: string;
  };

  /** A conversation and what happens in it. */
  type ActiveConversation = {
    /** When something last happened in it. */
    active_at: string;
    /** The channel. */
    channel: string;
    /** Its id. */
    conversation_id: string;
    /** When. */
    created_at: string;
    /** The platform's name for it. */
    key: string;
    /** The first line of that one. */
    line: string;
    /** Who has it in a Codex terminal; absent when nobody has. */
    loan?: LoanView | null;
    /** Its newest message. */
    message_id?: string | null;
    /** The node that has it, where several share the database; absent when none has it. */
    node?: string | null;
    /** What Codex asks and nobody has decided. */
    open_requests: number;
    /** Where its first unanswered message is, else its newest: `queued`, `working`, `waiting for you`, `done`, `failed` or `stopped`. Absent when retention removed its messages. */
    phase?: string | null;
    /** Codex's thread. */
    thread_id?: string | null;
    /** Where it works. */
    workdir: string;
  };

  /** An answer. */
  type AnswerView = {
    /** When. */
    created_at: string;
    /** Files that go with it. */
    files: Array<FileView>;
    /** `live`, `harvested` from Codex's history after a crash, or `shared` with the message whose turn it joined. */
    source: string;
    /** The text, whole. */
    text: string;
  };

  /** One attempt and its turn. */
  type AttemptView = {
    /** Its ordinal. */
    attempt: number;
    /** What Codex knows it by. */
    client_id: string;
    /** When. */
    ended_at?: string | null;
    /** What went wrong in it, oldest first. */
    failures: Array<string>;
    /** The life of Codex that it was given to. */
    incarnation: string;
    /** Tokens the model read. */
    input_tokens: number;
    /** Tokens the model wrote. */
    output_tokens: number;
    /** What its commands could touch. */
    sandbox: string;
    /** When. */
    started_at: string;
    /** `begun`, `attached`, `ended` or `lost`. */
    state: string;
    /** Codex's thread. */
    thread_id: string;
    /** Whether it was seen to do something that may change the world. */
    touched: boolean;
    /** Codex's turn, once it was named. */
    turn_id?: string | null;
  };

  /** The two ends of the record, which are signed. */
  type AuditEndsView = {
    /** Entries up to this number were there before the ledger's key signed for the first time. */
    base: number;
    /** The sum of the newest entry. */
    newest?: string | null;
    /** The sum of the newest entry that retention removed. */
    removed?: string | null;
  };

  /** One act of a person. */
  type AuditEntryView = {
    /** Who. */
    actor: string;
    /** When. */
    at: string;
    /** The same in milliseconds since 1970, as the sum has it. */
    at_ms?: number;
    /** The rest, one line. */
    detail: string;
    /** Its number. */
    row: number;
    /** To what: an id. */
    subject: string;
    /** Its sum; entries of older versions have none. */
    sum?: string | null;
    /** What was done, one word. */
    what: string;
  };

  /** Answer to `GET /v1/audit`. */
  type AuditList = {
    /** The sum that the oldest entry here is summed with. */
    before?: string | null;
    ends?: AuditEndsView | null;
    /** Newest first. */
    entries: Array<AuditEntryView>;
    /** What to give as `before` for the next page; absent on the last one. With a filter a page may have few entries, or none, and a next one all the same. */
    next?: number | null;
    /** Whose signature it is. */
    public_key?: string | null;
    /** Ed25519 over the ends, base64. */
    signature?: string | null;
  };

  /** Turns, tokens and stored bytes of a day. */
  type BudgetView = {
    bytes?: number | null;
    tokens?: number | null;
    turns?: number | null;
  };

  /** Something that may be meant. */
  type CandidateView = {
    /** The conversation's key. */
    conversation: string;
    /** Its whole id. */
    id: string;
    /** `message` or `task`. */
    kind: string;
    /** `queued`, `working`, `waiting for you`, `done`, `failed` or `stopped`. */
    phase: string;
    /** The id that people are shown: the last 8 characters of a message's, a task's as it is. */
    short_id: string;
    /** The first line of its text. */
    text: string;
  };

  /** A channel, how it is and what came over it in the last 24 hours. */
  type ChannelEntry = {
    channel: string;
    /** Why, as a sentence for people. */
    detail?: string | null;
    /** Messages of the last 24 hours, among the newest 10,000 of all channels. */
    messages: number;
    /** When the newest of them came. */
    newest_at?: string | null;
    /** Since when. */
    since?: string | null;
    /** `starting`, `receiving`, `retrying` (the platform is away) or `parked` (a person must do something, such as a new token); absent for those that the daemon serves itself. */
    state?: string | null;
  };

  /** Answer to `GET /v1/channels`. */
  type ChannelList = {
    /** By name. */
    channels: Array<ChannelEntry>;
  };

  /** How a channel is. */
  type ChannelView = {
    /** Name of the channel. */
    channel: string;
    /** Why, as a sentence for people. */
    detail: string;
    /** Since when. */
    since: string;
    /** `starting`, `receiving`, `retrying` or `parked`. */
    state: string;
  };

  /** The memory of Codex and its threads. With several CODEX_HOMEs, the sum of those that have a Codex now. */
  type CodexMemoryView = {
    /** What they may have (`codex.memory_mib`); absent without a budget. */
    budget_bytes?: number | null;
    /** What Codex and what it started have, in bytes; absent where none runs. */
    resident_bytes?: number | null;
    /** Conversations whose threads are loaded. */
    threads_loaded: number;
    /** Threads that were unloaded. */
    threads_released: number;
    /** Threads that were loaded again for a message, since the start of the daemon. */
    threads_resumed: number;
  };

  /** Answer to `GET /v1/conversations`: where something happened last first. */
  type ConversationList = {
    /** The conversations. */
    conversations: Array<ActiveConversation>;
    /** What to give as `before` for the next page; absent on the last one. One page of a filtered list looks at 500 conversations, so it may have few, or none, and a next one all the same. */
    next?: string | null;
  };

  /** Answer to `GET /v1/conversations/{id}`. */
  type ConversationStory = {
    /** The channel. */
    channel: string;
    /** Its id. */
    conversation_id: string;
    /** When. */
    created_at: string;
    /** The platform's name for it. */
    key: string;
    /** Who has it in a Codex terminal; absent when nobody has. */
    loan?: LoanView | null;
    /** Its messages, newest first. */
    messages: Array<MessageView>;
    /** What to give as `before` for the next page; absent on the last one. */
    next?: string | null;
    /** The node that has it, where several share the database; absent when none has it. */
    node?: string | null;
    /** Codex's thread. */
    thread_id?: string | null;
    /** Where it works. */
    workdir: string;
  };

  /** What became of each. */
  type DeadActs = {
    /** Those that are sent again or given up, or would be. */
    done: Array<ActView>;
    /** Nothing was changed. */
    dry_run: boolean;
    /** With `all`: how many were not looked at; call again for them. */
    left: number;
    /** Those that are not, and why. */
    refused: Array<RefusedAct>;
  };

  /** Answer to `GET /v1/dead`: messages that only a person moves on, newest first. */
  type DeadList = {
    /** The messages. */
    dead: Array<DeadView>;
    /** What to give as `before` for the next page; absent on the last one. */
    next?: string | null;
  };

  /** Body of `POST /v1/dead/retry` and `POST /v1/dead/discard`: which of them. */
  type DeadRequest = {
    /** All of them, oldest first, 100 in one call; to send again, without those that only their sender can. */
    all?: boolean;
    /** Only say what would happen. */
    dry_run?: boolean;
    /** Their ids, at most 100. */
    ids?: Array<string>;
  };

  /** A message that failed or waits for a person. */
  type DeadView = {
    /** How long that is, in milliseconds. */
    age_ms: number;
    /** Whether it has an answer that could not be delivered. */
    answered: boolean;
    /** Attempts so far. */
    attempts: number;
    /** The channel. */
    channel: string;
    /** The conversation's key. */
    conversation: string;
    /** The first line of its text. */
    line: string;
    /** Its id. */
    message_id: string;
    /** Why it failed or waits. */
    reason: string;
    /** When. */
    received_at: string;
    /** What sending it again would come to: `queued`, `delivering` or `continuing`; absent where only its sender can send it again. */
    retry?: string | null;
    /** Who sent it. */
    sender: string;
    /** Since when it is where it is. */
    since: string;
    /** `dead`, or `parked` while it waits for a person. */
    state: string;
    /** When one that waits is given up. */
    until?: string | null;
  };

  /** Body of `POST /v1/requests/{id}/decision`. */
  type DecisionRequest = {
    /** What questions and forms are answered with. */
    answers?: unknown;
    /** `accept`, `acceptForSession`, `decline` or `cancel`. */
    decision: string;
    /** The `digest` of the question that was shown: SHA-256 (hexadecimal) over `kind`, a zero byte and `shown`. A question with another digest is not decided. */
    digest?: string | null;
  };

  /** Answer to `POST /v1/requests/{id}/decision`: the decision counts. */
  type DecisionView = {
    /** What it was answered with, unless that is secret. */
    answers?: unknown;
    /** The attempt whose turn asks. */
    attempt: number;
    /** Who decided. */
    by?: string | null;
    /** The channel it came from. */
    channel: string;
    /** What stands for it in a chat. */
    code: string;
    /** The conversation's key: the id of a task on the channel `task`. */
    conversation: string;
    /** When. */
    created_at: string;
    /** When silence becomes a decline. */
    deadline: string;
    /** When. */
    decided_at?: string | null;
    /** `owner`, or `sender` for whoever sent the message as well. */
    deciders: string;
    /** What was decided, also while it is only granted. */
    decision?: string | null;
    /** Names what is decided about: the same effect has the same digest, SHA-256 (hexadecimal) over `kind`, a zero byte and `shown`. */
    digest: string;
    /** One line for people. */
    headline: string;
    /** The life of Codex that asks. */
    incarnation: string;
    /** The item it is about. */
    item_id?: string | null;
    /** What kind of answer it needs. */
    kind: string;
    /** The message whose turn asks. */
    message_id: string;
    /** Codex's own name for this kind of question. */
    method: string;
    /** `applied`, or `granted` when Codex gets it as soon as it asks again. */
    outcome: string;
    /** What Codex sent. */
    payload?: unknown;
    /** Its outside id. */
    request_id: string;
    /** Whose work it is about, for people: `you` for the local owner, else the sender, its channel and its tier. */
    requester?: string;
    /** Who sent the message whose turn asks, by the channel's authenticated name. */
    sender?: string;
    /** All that is decided about, in plain lines. */
    shown?: string | null;
    /** `open`, `orphaned` (Codex died while it asked), `granted` (decided since), `withdrawn`, or what was decided. */
    state: string;
    /** The task it belongs to. */
    task_id?: string | null;
    /** What that sender may do: `owner`, `peer` or `tool`. */
    tier?: string;
    /** From where: a surface, a rule, the deadline or a grant. */
    via?: string | null;
    /** What an accept must say: `approval` and `visit` a bare yes, `text` one text, `form` answers by name. */
    wants: string;
    /** Why it is not asked any more. */
    why?: string | null;
  };

  /** One item-level event. */
  type EventView = {
    /** When. */
    at: string;
    /** Which attempt. */
    attempt: number;
    /** What kind of thing happened. */
    kind: string;
    /** Its place among the events of its message. */
    ordinal: number;
    /** One line for people. */
    text: string;
  };

  /** Body of `POST /v1/policy/explain`: whose turn asks, and what for. */
  type ExplainRequest = {
    /** The channel that the message came from: `local`, `task`, `a2a`, `molecule:ID`. */
    channel?: string | null;
    /** The command, as a line for a shell. */
    command?: string | null;
    /** Where it runs and relative paths begin. */
    cwd?: string | null;
    /** Codex says that it wants out of the sandbox. */
    escalated?: boolean;
    /** `command`, `file_change`, `permissions`, `mcp_tool`, `user_input` or `elicitation`; by what else is given when absent. */
    kind?: string | null;
    /** Files that would be changed or opened. */
    paths?: Array<string>;
    /** Who sent it: on `molecule:ID` `canvas` or the id of an agent, on `local` and `a2a` the name of a token without `admin`, because one with it is the owner everywhere. */
    sender?: string | null;
    /** An MCP server, by its name in Codex's configuration. */
    server?: string | null;
    /** `owner`, `peer` or `tool`; or `channel` is given. */
    tier?: string | null;
    /** The tool of that server that would run. */
    tool?: string | null;
  };

  /** What would happen. */
  type ExplainView = {
    /** What an accept would mean. */
    accept_means: string;
    approval_policy: string;
    /** When Codex asks such a thing at all. */
    asked: string;
    command?: string | null;
    cwd?: string | null;
    /** After how many seconds silence is a decline. */
    deadline_secs: number;
    /** `allow`, `ask` or `deny`. */
    decision: string;
    kind: string;
    paths: Array<string>;
    /** The rule that decided. */
    rule?: string | null;
    /** All rules, in the order in which they count. */
    rules: Array<RuleView>;
    sandbox: string;
    server?: string | null;
    tier: string;
    tool?: string | null;
    /** Who decides a request: `owner` or `sender`. */
    who?: string | null;
    why: string;
  };

  type FailureFigures = {
    /** `transient`, `capacity`, `config`, `permanent`, `ambiguous` or `bug`; `unknown` where it is not kept. */
    class: string;
    messages: number;
  };

  /** A failure. */
  type FailureView = {
    /** `transient`, `capacity`, `config`, `permanent`, `ambiguous` or `bug`. */
    class: string;
    /** What happened and what to do. */
    reason: string;
  };

  /** A file that comes with a message. */
  type FileUpload = {
    /** What it holds, in base64. */
    data: string;
    /** What it is called: a label, not a path. */
    name: string;
  };

  /** A file that came with a message or goes with its answer. */
  type FileView = {
    /** How long it is. */
    bytes: number;
    /** What it is. */
    media_type: string;
    /** What it is called. */
    name: string;
    /** Our own copy of it on this machine. Where several daemons share the database it is there once this one needed the file, or has shown the message by itself, or its end, to its owner on this machine. */
    path: string;
  };

  /** A message that has the text, or whose answer has it. */
  type FoundMessage = {
    channel: string;
    /** The conversation's key. */
    conversation: string;
    conversation_id: string;
    /** What stands around it, on one line. */
    excerpt: string;
    message_id: string;
    /** Where it is, in the words of people. */
    phase: string;
    /** `text` or `answer`: where the text stands. */
    place: string;
    /** When it came. */
    received_at: string;
    sender: string;
  };

  /** Answer to `GET /v1/find`. */
  type FoundView = {
    /** None where nothing is meant, one where it is clear, several where somebody must choose; at most 20. */
    candidates: Array<CandidateView>;
  };

  /** How the daemon is. */
  type HealthView = {
    /** How the channels are that can be away. */
    channels?: Array<ChannelView>;
    /** What is known about Codex. */
    codex: string;
    /** The memory of Codex; absent if unknown. */
    codex_memory?: CodexMemoryView | null;
    /** Why not, or a remark. */
    detail: string;
    /** Health of the database; absent if unknown. */
    ledger?: LedgerView | null;
    /** The daemon's pid. */
    pid: number;
    /** Whether it can answer messages now. */
    ready: boolean;
    /** How the last reading of the configuration went; absent when it was read at the start alone. */
    reload?: ReloadView | null;
    /** The daemon's version. */
    version: string;
  };

  /** Why a message waits. */
  type HoldView = {
    /** What it waits for. */
    failure: FailureView;
    /** Until when. */
    until: string;
  };

  /** How many messages ended how. */
  type HourView = {
    /** Answered, and the answer delivered. */
    answered: number;
    /** When it begins. */
    at: string;
    /** Failed. */
    failed: number;
    /** From arrival to answer, in milliseconds: half of the answered ones took at most so long. */
    p50_ms?: number | null;
    /** The same of 95 in 100. */
    p95_ms?: number | null;
    /** Stopped or given up by a person. */
    stopped: number;
  };

  /** How the database is. */
  type LedgerView = {
    /** Why nothing more is taken in now, if it is so. */
    closed?: string | null;
    /** What is wrong with it. */
    damage?: string | null;
    /** Room on its disk. */
    free_bytes?: number | null;
    /** `unchecked` since it was opened, `sound` or `damaged`. */
    health: string;
    /** How long the newest commit took, in milliseconds. */
    last_commit_ms?: number | null;
    /** Size of the write-ahead log: it grows while somebody holds the database open for reading. */
    log_bytes: number;
    /** Below this nothing more is taken in. */
    low_bytes: number;
    /** What can be lived with and should be changed, such as a server whose commits are not durable. */
    warnings?: Array<string>;
  };

  /** Body of `POST /v1/conversations/{id}/lend`. */
  type LendRequest = {
    /** How long it lasts at most, in seconds; 4 hours when absent, and never more than a day. */
    for_secs?: number | null;
    /** The caller's own id for the loan, such as a UUID: the same one again asks how it stands. */
    loan_id: string;
    /** Lend it although somebody else wrote in it. */
    strangers?: boolean;
  };

  /** Answer to `POST /v1/conversations/{id}/lend`. */
  type LendView = {
    /** The conversation. */
    conversation_id: string;
    /** The same as a sentence for people. */
    detail: string;
    /** The platform's name for it. */
    key: string;
    /** The loan; absent when nothing was lent. */
    loan?: LoanView | null;
    /** `ready`: run the command; `busy`: its messages wait, and a turn has to end first, so ask again; `stranger`: somebody else wrote in it, and nothing was lent: ask again with `strangers`. */
    state: string;
    /** What opens it, once it is ready. */
    terminal?: TerminalView | null;
  };

  /** A conversation that is lent. */
  type LentConversation = {
    /** The conversation. */
    conversation_id: string;
    /** The platform's name for it. */
    key: string;
    /** The loan. */
    loan: LoanView;
  };

  /** Who has a conversation in a Codex terminal. */
  type LoanView = {
    /** Who has it. */
    borrower: string;
    /** Why the bridge does not have it back yet. */
    error?: string | null;
    /** Its id. */
    loan_id: string;
    /** Whether its time is over, so that the bridge takes the thread back. */
    over: boolean;
    /** Since when. */
    since: string;
    /** When it ends, or ended. */
    until: string;
  };

  /** Body of `POST /v1/session`. */
  type LoginCode = {
    /** The code of a login. */
    code: string;
  };

  /** Answer to `POST /v1/logins`: the only place where the code is shown. */
  type LoginMade = {
    /** Opens one session. It belongs behind `#login=` of an address below. */
    code: string;
    /** Until when it is good. */
    expires_at: string;
    /** What the session will be called. */
    name: string;
    /** Where it is for others, if `http.public_url` says so. */
    public_url?: string | null;
    /** What is not as it should be. */
    remark?: string | null;
    scopes: Array<string>;
    /** Where the console is on this machine; `null` where it is served only elsewhere. */
    url?: string | null;
  };

  /** A page of messages, newest first. */
  type MessageList = {
    /** The messages. */
    messages: Array<MessageView>;
    /** What to give as `before` for the next page; absent on the last one. */
    next?: string | null;
  };

  /** A message, where it is, and its answer. */
  type MessageView = {
    /** Always `none` and `not_needed`: no channel is owed an ack for a single message. */
    ack?: AckView | null;
    /** The answer. */
    answer?: AnswerView | null;
    /** Ordinal of the newest attempt. */
    attempt: number;
    /** The message of its conversation that goes first. */
    behind?: string | null;
    /** The channel. */
    channel: string;
    /** The conversation's key. */
    conversation: string;
    /** The newest failure. */
    failure?: FailureView | null;
    /** Files that came with it. */
    files: Array<FileView>;
    /** Messages whose texts its own turn was given. */
    followers: Array<string>;
    /** Why it waits: its own reason, or that of the message of its conversation that goes first. */
    hold?: HoldView | null;
    /** The message whose running turn was given its text. */
    leader?: string | null;
    /** Its id. */
    message_id: string;
    /** The node that has its conversation, where several share the database; absent when none has it. */
    node?: string | null;
    /** The same for people: `queued`, `working`, `waiting for you`, `done`, `failed` or `stopped`. */
    phase?: string;
    /** When. */
    received_at: string;
    /** What Codex asked while it worked on it. */
    requests: Array<RequestView>;
    /** Its round among the waiting messages of all senders: lower ones go first. */
    round: number;
    /** Who sent it. */
    sender: string;
    /** Where it is. */
    state: string;
    /** Who wants it stopped. */
    stop?: string | null;
    /** Whether Codex died under an earlier attempt of it. */
    suspect: boolean;
    /** The text. */
    text: string;
    /** Codex's thread of the conversation. */
    thread_id?: string | null;
    /** When. */
    updated_at: string;
    /** Where it is, in words. */
    why: WhyView;
    /** Where Codex works on it. */
    workdir?: string | null;
    /** Whether an answer is to be expected without somebody acting first. */
    worth_waiting: boolean;
  };

  /** Body of `POST /v1/conversations/{id}/move`. */
  type MoveRequest = {
    /** The node that gets it. */
    to: string;
  };

  /** What moving a conversation came to. */
  type MoveView = {
    /** The conversation. */
    conversation_id: string;
    /** The same, as a sentence. */
    detail: string;
    /** The platform's name for it. */
    key: string;
    /** The node that has it now. */
    node: string;
    /** `moved`, or `there` when it was there before. */
    outcome: string;
  };

  /** Body of `POST /v1/logins`. */
  type NewLogin = {
    /** It is for another device: refused where `http.public_url` is not https. */
    elsewhere?: boolean;
    /** Where it will be used, in words for people. */
    label: string;
    /** What the session will be good for: `read`, `send`, `control`, `approve`, `admin`. */
    scopes: Array<string>;
  };

  /** Body of `POST /v1/push`: what a browser's `PushSubscription` says. */
  type NewPush = {
    /** At least one. */
    about: Array<PushAbout>;
    /** The browser's secret, in base64url. */
    auth: string;
    detail?: PushDetail;
    /** The address of the browser's push service. */
    endpoint: string;
    /** The browser's public key, in base64url. */
    p256dh: string;
  };

  /** Body of `POST /v1/tokens`. */
  type NewToken = {
    /** Who will hold it. */
    name: string;
    /** It is for whoever held a revoked token of this name: they see the tasks that it gave over A2A. */
    rotate?: boolean;
    /** What it is good for: `read`, `send`, `control`, `approve`, `admin`; `a2a` for other agents. */
    scopes: Array<string>;
  };

  /** What draining or activating a node came to. */
  type NodeActView = {
    /** The same, as a sentence. */
    detail: string;
    /** The node. */
    node_id: string;
    /** `draining` or `active`: what it is from now on, or was before. */
    outcome: string;
  };

  /** Answer to `GET /v1/nodes`: those that live first, each kind by id. Empty where one daemon has the database for itself. */
  type NodeList = {
    /** The nodes. */
    nodes: Array<NodeView>;
  };

  /** A daemon that shares its database with others. */
  type NodeView = {
    /** Whether it is the one that answers. */
    answers: boolean;
    /** Turns that it may run at the same time. */
    capacity: number;
    /** Codex's version. */
    codex_version: string;
    /** Conversations that it has; 10000 stands for that many or more. */
    conversations: number;
    /** Since when it is gone, or has left at the latest. */
    gone_at?: string | null;
    /** How long its lease lasts if it is not renewed, in milliseconds; absent when it is over. */
    lease_ms?: number | null;
    /** Its id. */
    node_id: string;
    /** Polled channels that it reads. */
    reads?: Array<string>;
    /** When. */
    started_at: string;
    /** `active`; `draining` while it takes nothing new; `left`; or `gone` when its lease has ended although it did not leave. */
    state: string;
    /** Turns that it runs, or of one that is gone ran last. */
    turns: number;
    /** The daemon's version. */
    version: string;
  };

  /** The notification of one ended task. */
  type NotificationReport = {
    /** Why it failed. */
    error?: string | null;
    /** What is said. */
    message: string;
    /** `pending`, `sent`, `failed` or `no_target`. */
    notification_status: string;
    /** When it was notified. */
    notified_at?: string | null;
    /** Whether this call sent it. */
    sent: boolean;
    /** How it ended. */
    status: string;
    /** Who is notified. */
    target?: string | null;
    /** Which task. */
    task_id: string;
    /** Why it is still unsent where this call did not wait for it. */
    why?: string | null;
  };

  /** Which notifications. */
  type NotifyBody = {
    /** Only say what would be sent. */
    dry_run?: boolean;
    /** How many, at most. */
    limit?: number | null;
  };

  /** What became of notifications. */
  type NotifyReply = {
    /** Whether nothing was sent. */
    dry_run: boolean;
    /** One for each. */
    notifications: Array<NotificationReport>;
    /** How many tasks. */
    processed: number;
  };

  /** How many messages ended how. */
  type OutcomeCounts = {
    /** Answered, and the answer delivered. */
    answered: number;
    /** Failed. */
    failed: number;
    /** From arrival to answer, in milliseconds: half of the answered ones took at most so long. */
    p50_ms?: number | null;
    /** The same of 95 in 100. */
    p95_ms?: number | null;
    /** Stopped or given up by a person. */
    stopped: number;
  };

  /** Answer to `GET /v1/figures`. */
  type OutcomesView = {
    /** Only the newest 20,000 messages of an end were looked at, and there are more. */
    cut: boolean;
    /** Failed messages by the class of what failed. */
    failures: Array<FailureFigures>;
    /** Every hour, the present one last. */
    hours: Array<HourView>;
    /** Senders whose messages ended, by tokens, at most 50. */
    senders: Array<SenderFigures>;
    /** When the first hour begins. */
    since: string;
    /** All of them together. */
    total: OutcomeCounts;
  };

  /** An error, as RFC 9457 has it. */
  type Problem = {
    /** What happened and what to do. */
    detail: string;
    /** The message it is about, when it is about what that one is. */
    message_id?: string | null;
    /** Where that message is. */
    state?: string | null;
    /** The HTTP status. */
    status: number;
    /** What kind of problem. */
    title: string;
  };

  /** What a browser is alerted to. */
  type PushAbout = "question" | "failure" | "task";

  /** Answer to `POST /v1/push`. */
  type PushAdded = {
    /** The same again for the same browser. */
    id: string;
  };

  /** How much of it. */
  type PushDetail = "hint" | "headline";

  /** Answer to `GET /v1/push`. */
  type PushList = {
    /** The key to subscribe with: `applicationServerKey`, in base64url. */
    key: string;
    /** The browsers of the session that calls; of all sessions with `admin`. */
    subscriptions: Array<PushView>;
  };

  /** A browser that gets alerts. */
  type PushView = {
    about: Array<PushAbout>;
    created_at: string;
    detail: PushDetail;
    /** Why the newest alert was not taken. */
    error?: string | null;
    id: string;
    /** The session that it belongs to, and ends with. */
    session: string;
  };

  /** The limit of one account. */
  type QuotaView = {
    /** The account's name, from the configuration or made from Codex's login. */
    account?: string | null;
    /** CODEX_HOME; absent for the default one. */
    codex_home?: string | null;
    /** Why, as a sentence for people; absent while it is free. */
    detail?: string | null;
    /** The node whose Codex reported it, where several daemons share one database. */
    node?: string | null;
    reported_at: string;
    /** `free`, `slowed` (agents take turns one at a time), `reserved` (people alone) or `reached` (everybody waits). */
    state: string;
    /** Until when that is so, or when the next agent may begin. */
    until?: string | null;
    /** Its windows that have not passed. */
    windows: Array<QuotaWindowView>;
  };

  /** One window of a limit. */
  type QuotaWindowView = {
    /** Its length. */
    minutes?: number | null;
    /** `primary` or `secondary`, as Codex calls them. */
    name: string;
    resets_at: string;
    used_percent: number;
  };

  /** Limits of accounts, and who waits for them. */
  type QuotasView = {
    /** By node and CODEX_HOME; those that Codex reported a limit of. */
    accounts: Array<QuotaView>;
    /** The same of agents and programs. */
    agents_waiting: number;
    /** People's messages that wait until an account has room, or a budget. */
    people_waiting: number;
  };

  /** One that could not be done. */
  type RefusedAct = {
    /** As it was given. */
    message_id: string;
    reason: string;
  };

  /** Answer to `POST /v1/reload`, and what `status` tells of the last one. */
  type ReloadView = {
    /** When. */
    at: string;
    /** Keys that have another value from now on. */
    changed: Array<string>;
    /** Why the file can't be used. */
    error?: string | null;
    /** Keys that have another value in the file, and take effect at the next start. */
    needs_restart: Array<string>;
    /** Whether the file could be used. If not, what was in force before still is. */
    ok: boolean;
    /** What the operator should know. */
    warnings: Array<string>;
  };

  /** One request under the rules in force now. */
  type ReplayEntry = {
    /** Who decided. */
    by?: string | null;
    channel: string;
    /** When it was asked. */
    created_at: string;
    /** What was decided; absent while nobody has decided, and when it was withdrawn. */
    decision?: string | null;
    /** Whether `now` is another than `then`. */
    differs: boolean;
    /** One line for people. */
    headline: string;
    kind: string;
    /** The message whose turn asked. */
    message_id: string;
    /** `allow`, `ask` or `deny`: what the rules in force now say. Absent where what they look at was too long to be kept. */
    now?: string | null;
    request_id: string;
    /** The rule that would decide. */
    rule?: string | null;
    sender: string;
    /** `allow`, `ask` or `deny`: what was done when it was asked. */
    then: string;
    tier: string;
    /** From where: a surface, a rule, the deadline or a grant. */
    via?: string | null;
    /** Who would decide a request: `owner` or `sender`. */
    who?: string | null;
    /** The same in a sentence. */
    why: string;
  };

  /** Answer to `GET /v1/policy/replay`. */
  type ReplayList = {
    /** What to give as `before` for the next page; absent on the last one. */
    next?: string | null;
    /** What Codex asked since then, newest first. */
    requests: Array<ReplayEntry>;
    /** Since when. */
    since: string;
  };

  /** One piece that is sent back. */
  type ReplyView = {
    /** `answer`, or `notice` for words of the bridge. */
    kind: string;
    /** When it is sent again. */
    not_before?: string | null;
    /** What a notice says. Pieces of the answer are in `answer`. */
    notice?: string | null;
    /** Its place among the pieces. */
    ordinal: number;
    /** Why it was given up. */
    reason?: string | null;
    /** The platform's proof that it took it. */
    receipt?: string | null;
    /** `queued`, `sending`, `sent` or `dead`. */
    state: string;
    /** Sends begun. */
    tries: number;
  };

  /** One question and whose it is. */
  type RequestEntry = {
    /** What it was answered with, unless that is secret. */
    answers?: unknown;
    /** The attempt whose turn asks. */
    attempt: number;
    /** Who decided. */
    by?: string | null;
    /** The channel it came from. */
    channel: string;
    /** What stands for it in a chat. */
    code: string;
    /** The conversation's key: the id of a task on the channel `task`. */
    conversation: string;
    /** When. */
    created_at: string;
    /** When silence becomes a decline. */
    deadline: string;
    /** When. */
    decided_at?: string | null;
    /** `owner`, or `sender` for whoever sent the message as well. */
    deciders: string;
    /** What was decided, also while it is only granted. */
    decision?: string | null;
    /** Names what is decided about: the same effect has the same digest, SHA-256 (hexadecimal) over `kind`, a zero byte and `shown`. */
    digest: string;
    /** One line for people. */
    headline: string;
    /** The life of Codex that asks. */
    incarnation: string;
    /** The item it is about. */
    item_id?: string | null;
    /** What kind of answer it needs. */
    kind: string;
    /** The message whose turn asks. */
    message_id: string;
    /** Codex's own name for this kind of question. */
    method: string;
    /** What Codex sent. */
    payload?: unknown;
    /** Its outside id. */
    request_id: string;
    /** Whose work it is about, for people: `you` for the local owner, else the sender, its channel and its tier. */
    requester?: string;
    /** Who sent the message whose turn asks, by the channel's authenticated name. */
    sender?: string;
    /** All that is decided about, in plain lines. */
    shown?: string | null;
    /** `open`, `orphaned` (Codex died while it asked), `granted` (decided since), `withdrawn`, or what was decided. */
    state: string;
    /** The task it belongs to. */
    task_id?: string | null;
    /** What that sender may do: `owner`, `peer` or `tool`. */
    tier?: string;
    /** From where: a surface, a rule, the deadline or a grant. */
    via?: string | null;
    /** What an accept must say: `approval` and `visit` a bare yes, `text` one text, `form` answers by name. */
    wants: string;
    /** Why it is not asked any more. */
    why?: string | null;
  };

  /** Answer to `GET /v1/requests`. */
  type RequestList = {
    /** What `before` must be for the next page; absent on the last one. */
    next?: string | null;
    /** Newest first. */
    requests: Array<RequestEntry>;
  };

  /** An approval request of Codex. Contains the details while it is undecided, and when it is shown alone. */
  type RequestView = {
    /** What it was answered with, unless that is secret. */
    answers?: unknown;
    /** The attempt whose turn asks. */
    attempt: number;
    /** Who decided. */
    by?: string | null;
    /** What stands for it in a chat. */
    code: string;
    /** When. */
    created_at: string;
    /** When silence becomes a decline. */
    deadline: string;
    /** When. */
    decided_at?: string | null;
    /** `owner`, or `sender` for whoever sent the message as well. */
    deciders: string;
    /** What was decided, also while it is only granted. */
    decision?: string | null;
    /** Names what is decided about: the same effect has the same digest, SHA-256 (hexadecimal) over `kind`, a zero byte and `shown`. */
    digest: string;
    /** One line for people. */
    headline: string;
    /** The life of Codex that asks. */
    incarnation: string;
    /** The item it is about. */
    item_id?: string | null;
    /** What kind of answer it needs. */
    kind: string;
    /** Codex's own name for this kind of question. */
    method: string;
    /** What Codex sent. */
    payload?: unknown;
    /** Its outside id. */
    request_id: string;
    /** Whose work it is about, for people: `you` for the local owner, else the sender, its channel and its tier. */
    requester?: string;
    /** Who sent the message whose turn asks, by the channel's authenticated name. */
    sender?: string;
    /** All that is decided about, in plain lines. */
    shown?: string | null;
    /** `open`, `orphaned` (Codex died while it asked), `granted` (decided since), `withdrawn`, or what was decided. */
    state: string;
    /** What that sender may do: `owner`, `peer` or `tool`. */
    tier?: string;
    /** From where: a surface, a rule, the deadline or a grant. */
    via?: string | null;
    /** What an accept must say: `approval` and `visit` a bare yes, `text` one text, `form` answers by name. */
    wants: string;
    /** Why it is not asked any more. */
    why?: string | null;
  };

  /** A decision about what Codex asks. */
  type RespondBody = {
    /** What questions and forms are answered with. */
    answers?: unknown;
    /** `accept`, `acceptForSession`, `decline` or `cancel`; `decline` when absent. */
    decision?: string | null;
    /** Which question, by its id or its code. */
    request_id: string;
  };

  /** Body of `POST /v1/conversations/{id}/return`. */
  type ReturnRequest = {
    /** This loan only; whichever there is when absent. */
    loan_id?: string | null;
  };

  /** Answer to `POST /v1/conversations/{id}/return`. */
  type ReturnView = {
    /** The conversation. */
    conversation_id: string;
    /** The same as a sentence for people. */
    detail: string;
    /** The platform's name for it. */
    key: string;
    /** `returned`, or `waits` while a terminal still has the thread open. */
    state: string;
  };

  /** What one rule says to it. */
  type RuleView = {
    /** Whether it matches; the first one that does counts. */
    matches: boolean;
    name: string;
    /** `allow`, `ask` or `deny`. */
    then: string;
    /** Why it does not. */
    why_not?: string | null;
  };

  /** Answer to `GET /v1/search`. */
  type SearchList = {
    /** The same as a sentence. */
    detail: string;
    /** Newest first. */
    found: Array<FoundMessage>;
    /** How many messages were looked through. */
    looked_at: number;
    /** What to give as `before` to go on with older ones; absent when all were looked through. */
    next?: number | null;
  };

  type SenderFigures = {
    channel: string;
    /** Messages that ended, however. */
    messages: number;
    sender: string;
    /** Tokens of all their turns. */
    tokens: number;
  };

  /** Answer to `GET /v1/senders`. */
  type SenderList = {
    /** How many more there are. */
    left: number;
    /** Who wrote since then, newest first, at most 200. */
    senders: Array<SenderView>;
    /** Since when it is counted: 24 hours. */
    since: string;
  };

  /** Somebody who wrote. */
  type SenderView = {
    /** What they may use within a day; absent where nothing is counted. */
    budget?: BudgetView | null;
    channel: string;
    /** Messages that came. */
    messages: number;
    /** When the newest of them came. */
    newest_at: string;
    /** By the channel's authenticated name. */
    sender: string;
    /** What their turns may do: `owner`, `peer` or `tool`. */
    tier: string;
    /** What they used. Bytes are counted where they have a budget. */
    used: BudgetView;
    /** Until when they wait for their budget; absent while they do not. */
    waits_until?: string | null;
  };

  /** Answer to `POST /v1/session`. The other half is in its cookie. */
  type SessionOpened = {
    /** When a session ends, if it is used every week. */
    expires_at?: string | null;
    /** The page's half: the header `codex-bridge-session` of every call. */
    half: string;
    /** Where it is used; of sessions only. */
    label?: string | null;
    /** The session or token, or the owner at this machine. */
    name: string;
    scopes: Array<string>;
    /** `console`, or another surface. */
    via: string;
  };

  /** Who calls, as `GET /v1/session` says it. */
  type SessionView = {
    /** When a session ends, if it is used every week. */
    expires_at?: string | null;
    /** Where it is used; of sessions only. */
    label?: string | null;
    /** The session or token, or the owner at this machine. */
    name: string;
    scopes: Array<string>;
    /** `console`, or another surface. */
    via: string;
  };

  /** What a task is started with. */
  type StartArgs = {
    /** `on-request` or `untrusted`. */
    approval_policy?: string | null;
    /** A CODEX_HOME that the configuration lists. */
    codex_home?: string | null;
    /** Where it works. */
    cwd?: string | null;
    /** Which model. */
    model?: string | null;
    /** Target of the notification at its end. */
    notify_target?: string | null;
    /** What Codex is to do. */
    prompt: string;
    /** `read-only` or `workspace-write`. */
    sandbox?: string | null;
  };

  /** Answer to `GET /v1/status`. */
  type StatusView = {
    /** Always 0: no channel is owed an ack for a single message. */
    acks_owed: number;
    /** Messages by state. */
    counts: Record<string, number>;
    /** How the daemon is. */
    health: HealthView;
    /** What the database takes on disk. */
    ledger_bytes?: number | null;
    /** Conversations that are lent to a Codex terminal. */
    lent?: Array<LentConversation>;
    /** Daemons that share the database and have not left; absent where one has it for itself. */
    nodes?: Array<NodeView> | null;
    /** When the oldest message without an answer came. */
    oldest_unanswered_at?: string | null;
    /** How long ago that is, in milliseconds. */
    oldest_unanswered_ms?: number | null;
    /** Limits of the accounts that Codex is logged in with; absent while Codex has reported none. */
    quotas?: QuotasView | null;
    /** Replies that a platform did not take yet. */
    replies_retried: number;
    /** Questions of Codex that wait for somebody. */
    requests_waiting?: number;
    /** The same in the words of people. */
    summary: SummaryView;
    /** Unanswered messages under which Codex died before; they are tried one at a time. */
    suspects: number;
  };

  /** More for a running turn. */
  type SteerBody = {
    /** The text. */
    instruction: string;
  };

  /** Body of `POST /v1/stop`. */
  type StopSenderRequest = {
    /** On which channel; on all of them when absent. */
    channel?: string | null;
    /** Whose messages: the name of a token or peer, or the channel's own name for a sender. */
    sender: string;
  };

  /** Answer to `POST /v1/stop`. */
  type StopSenderView = {
    /** Messages that had not begun and are cancelled. */
    cancelled: number;
    /** Messages whose turns are being interrupted; each ends as cancelled unless its answer comes first. */
    interrupted: Array<string>;
    /** Messages whose text was given to the turn of another sender: that turn goes on with it, and they end with it. */
    joined: Array<string>;
    /** Whose messages. */
    sender: string;
  };

  /** Answer to `GET /v1/messages/{id}`. */
  type StoryView = {
    /** Always `none` and `not_needed`: no channel is owed an ack for a single message. */
    ack?: AckView | null;
    /** What people did to it, newest first. */
    acts: Array<ActEntryView>;
    /** The answer. */
    answer?: AnswerView | null;
    /** Ordinal of the newest attempt. */
    attempt: number;
    /** Its turns, oldest first. */
    attempts: Array<AttemptView>;
    /** The message of its conversation that goes first. */
    behind?: string | null;
    /** The channel. */
    channel: string;
    /** The conversation's key. */
    conversation: string;
    /** What Codex did, and what the bridge had to say about it. */
    events: Array<EventView>;
    /** The newest failure. */
    failure?: FailureView | null;
    /** Files that came with it. */
    files: Array<FileView>;
    /** Messages whose texts its own turn was given. */
    followers: Array<string>;
    /** Why it waits: its own reason, or that of the message of its conversation that goes first. */
    hold?: HoldView | null;
    /** The message whose running turn was given its text. */
    leader?: string | null;
    /** Its id. */
    message_id: string;
    /** The node that has its conversation, where several share the database; absent when none has it. */
    node?: string | null;
    /** The same for people: `queued`, `working`, `waiting for you`, `done`, `failed` or `stopped`. */
    phase?: string;
    /** When. */
    received_at: string;
    /** What was sent back, in order. */
    replies: Array<ReplyView>;
    /** What Codex asked while it worked on it. */
    requests: Array<RequestView>;
    /** Its round among the waiting messages of all senders: lower ones go first. */
    round: number;
    /** Who sent it. */
    sender: string;
    /** Where it is. */
    state: string;
    /** Who wants it stopped. */
    stop?: string | null;
    /** Whether Codex died under an earlier attempt of it. */
    suspect: boolean;
    /** The text. */
    text: string;
    /** Codex's thread of the conversation. */
    thread_id?: string | null;
    /** When. */
    updated_at: string;
    /** Where it is, in words. */
    why: WhyView;
    /** Where Codex works on it. */
    workdir?: string | null;
    /** Whether an answer is to be expected without somebody acting first. */
    worth_waiting: boolean;
  };

  /** Body of `POST /v1/messages`. */
  type SubmitRequest = {
    /** The conversation's key; `main` when absent. */
    conversation?: string | null;
    /** Where a new conversation works; a directory of its own when absent. Only the owner may name one, and only one that an existing conversation has. */
    cwd?: string | null;
    /** Files that come with it. */
    files?: Array<FileUpload>;
    /** The model of a new conversation; only the owner may name one. */
    model?: string | null;
    /** The sandbox of a new conversation, `read-only` or `workspace-write`; only the owner may name one. */
    sandbox?: string | null;
    /** The text. */
    text: string;
  };

  /** Answer to `POST /v1/messages`: the message is on disk. */
  type SubmitResponse = {
    /** Where its conversation works. */
    cwd?: string;
    /** Whether the same `Idempotency-Key` was here before. */
    duplicate: boolean;
    /** Whether it is the first one of its conversation. */
    first?: boolean;
    /** Its id. */
    message_id: string;
    /** What its turns may touch. */
    sandbox?: string;
  };

  /** How many messages are where, in the words of people. */
  type SummaryView = {
    /** Finished with an answer. */
    answered: number;
    /** Those of the last 24 hours. */
    answered_24h: number;
    /** Stopped or given up by a person. */
    cancelled: number;
    /** Failed messages. */
    dead: number;
    /** Answered, and their replies are on their way. */
    sending: number;
    /** Their turns were lost from sight and are looked for. */
    unclear: number;
    /** For a turn, behind another one, or for capacity. */
    waiting: number;
    /** For a person: something is to be mended or decided. */
    waiting_for_you: number;
    /** Codex works on them, or is about to. */
    working: number;
  };

  /** Something that happened to a task. */
  type TaskEvent = {
    /** When. */
    created_at: string;
    /** What the task was then. */
    normalized_status?: string | null;
    /** One line for people. */
    payload_summary: string;
    /** What kind of thing. */
    source_event_type: string;
  };

  /** A page of tasks, newest first. */
  type TaskPageView = {
    /** What to give as `before` for the next page; absent on the last one. */
    next?: string | null;
    /** The tasks, without their events and questions. */
    tasks: Array<TaskShape>;
  };

  /** About one task, or a message in the same words. */
  type TaskReply = {
    /** Whether the task was there before, after a start. */
    duplicate?: boolean | null;
    /** `cancelled` or `stopping`, after an interrupt. */
    interrupt?: string | null;
    /** What was done, for people. */
    message?: string | null;
    /** What Codex was answered. */
    response?: unknown;
    /** `steered`, `queued`, or `unknown` (it may have been heard: look before it is said again), after telling more. */
    steer?: string | null;
    /** The task as it is now. */
    task: TaskShape;
    /** Why it waits, or is not known. */
    why?: string | null;
  };

  /** Something that Codex asks for a task. */
  type TaskRequest = {
    /** What stands for it in a chat. */
    code: string;
    /** When it was asked. */
    created_at: string;
    /** When silence becomes a decline. */
    deadline: string;
    /** Who may decide. */
    deciders: string;
    /** One line for people. */
    headline: string;
    /** What kind of answer it needs. */
    kind: string;
    /** Codex's own name for this kind of question. */
    method: string;
    /** What Codex sent. */
    payload: unknown;
    /** Its id. */
    request_id: string;
    /** Whose work it is about, for people. */
    requester?: string | null;
    /** Who sent the message whose turn asks. */
    sender?: string | null;
    /** All that is decided about, in plain lines. */
    shown: string;
    /** `open`, `orphaned` or `granted`. */
    state: string;
    /** What that sender may do. */
    tier?: string | null;
    /** What an accept must say. */
    wants: string;
  };

  /** One task. */
  type TaskShape = {
    /** Whether a turn of it is followed now. */
    active_connection: boolean;
    /** The whole answer. */
    answer?: string | null;
    /** When Codex asks. */
    approval_policy?: string | null;
    /** The channel of its messages. */
    channel?: string | null;
    /** Which CODEX_HOME was asked for. */
    codex_home?: string | null;
    /** Codex's thread. */
    codex_thread_id?: string | null;
    /** Codex's newest turn. */
    codex_turn_id?: string | null;
    /** When it was over. */
    completed_at?: string | null;
    /** When it was started. */
    created_at?: string | null;
    /** Where it works. */
    cwd?: string | null;
    /** Why it failed, was stopped or waits. */
    error_summary?: string | null;
    /** The beginning of the answer. */
    final_summary?: string | null;
    /** The newest event. */
    last_progress_summary?: string | null;
    /** Its messages, oldest first. */
    message_ids: Array<string>;
    /** Which model was asked for. */
    model?: string | null;
    /** Why the newest try failed. */
    notification_error?: string | null;
    /** `pending`, `sent`, `failed` or `no_target`. */
    notification_status?: string | null;
    /** When it was notified. */
    notified_at?: string | null;
    /** Target of the notification at its end. */
    notify_target?: string | null;
    /** What Codex waits for. */
    pending_requests?: Array<TaskRequest> | null;
    /** The same for people: `queued`, `working`, `waiting for you`, `done`, `failed` or `stopped`. */
    phase?: string;
    /** The beginning of the prompt. */
    prompt_summary: string;
    /** The last 20. */
    recent_events?: Array<TaskEvent> | null;
    /** What its commands may touch. */
    sandbox?: string | null;
    /** Who started it. */
    starter?: string | null;
    /** `queued`, `starting`, `working`, `waiting_for_approval`, `waiting_for_user_input`, `parked`, `unclear`, `completed`, `failed` or `cancelled`. */
    status: string;
    /** Who wants it stopped, until it is. */
    stopping?: string | null;
    /** Its id; a message's where no task is meant. */
    task_id: string;
    /** When something last happened to it. */
    updated_at?: string | null;
  };

  /** A command that opens a conversation's thread in Codex's own terminal. */
  type TerminalView = {
    /** Its arguments. */
    args: Array<string>;
    /** Its `CODEX_HOME`. */
    codex_home?: string | null;
    /** The program. */
    program: string;
    /** Where to run it. */
    workdir: string;
  };

  /** Answer to `GET /v1/tokens`. */
  type TokenList = {
    /** Good ones first, each by name. */
    tokens: Array<TokenView>;
  };

  /** Answer to `POST /v1/tokens`: the only place where the token is shown. */
  type TokenMade = {
    /** Who will hold it. */
    name: string;
    /** What it is good for. */
    scopes: Array<string>;
    /** The token. It can't be shown again. */
    token: string;
  };

  /** Answer to `DELETE /v1/tokens/{name}`. */
  type TokenRevoked = {
    /** Messages of its holder that had not begun and are cancelled. */
    cancelled: number;
    /** Messages of its holder whose text was given to the turn of another sender, which goes on with it. */
    joined: Array<string>;
    /** It is good for nothing any more. */
    name: string;
    /** Messages of its holder whose turns run and go on: `POST /v1/stop` ends them. */
    running: Array<string>;
  };

  /** A token, as far as it is known. */
  type TokenView = {
    /** When. */
    created_at: string;
    /** When a session or login ends; a session also ends when it was not used for a week. */
    expires_at?: string | null;
    /** `token`, `session` of the console, or `login`, a code that may still become one. */
    kind: string;
    /** Where a session is used. */
    label?: string | null;
    /** When it was last seen, within a minute or so. */
    last_used_at?: string | null;
    /** Who holds it. */
    name: string;
    /** When it was revoked. */
    revoked_at?: string | null;
    /** What it is good for. */
    scopes: Array<string>;
  };

  /** Which questions. */
  type Which = "open" | "all";

  /** Where a message is, in words. */
  type WhyView = {
    /** What happens next. */
    next: string;
    /** Where it is and what it waits for. */
    now: string;
  };

  type Got<P extends string> =
    P extends `policy/replay` ? ReplayList :
    P extends `conversations/${string}` ? ConversationStory :
    P extends `messages/${string}` ? StoryView :
    P extends `requests/${string}` ? RequestEntry :
    P extends `tasks/${string}` ? TaskReply :
    P extends `audit` ? AuditList :
    P extends `channels` ? ChannelList :
    P extends `conversations` ? ConversationList :
    P extends `dead` ? DeadList :
    P extends `figures` ? OutcomesView :
    P extends `find` ? FoundView :
    P extends `messages` ? MessageList :
    P extends `nodes` ? NodeList :
    P extends `push` ? PushList :
    P extends `requests` ? RequestList :
    P extends `search` ? SearchList :
    P extends `senders` ? SenderList :
    P extends `session` ? SessionView :
    P extends `status` ? StatusView :
    P extends `tasks` ? TaskPageView :
    P extends `tokens` ? TokenList :
    never;

  type Posted<P extends string> =
    P extends `conversations/${string}/lend` ? LendView :
    P extends `conversations/${string}/move` ? MoveView :
    P extends `conversations/${string}/return` ? ReturnView :
    P extends `messages/${string}/cancel` ? ActView :
    P extends `messages/${string}/drop` ? ActView :
    P extends `messages/${string}/redrive` ? ActView :
    P extends `messages/${string}/steer` ? TaskReply :
    P extends `nodes/${string}/activate` ? NodeActView :
    P extends `nodes/${string}/drain` ? NodeActView :
    P extends `requests/${string}/decision` ? DecisionView :
    P extends `tasks/${string}/interrupt` ? TaskReply :
    P extends `tasks/${string}/respond` ? TaskReply :
    P extends `tasks/${string}/steer` ? TaskReply :
    P extends `dead/discard` ? DeadActs :
    P extends `dead/retry` ? DeadActs :
    P extends `policy/explain` ? ExplainView :
    P extends `tasks/notify-completed` ? NotifyReply :
    P extends `logins` ? LoginMade :
    P extends `messages` ? SubmitResponse :
    P extends `push` ? PushAdded :
    P extends `reload` ? ReloadView :
    P extends `session` ? SessionOpened :
    P extends `stop` ? StopSenderView :
    P extends `tasks` ? TaskReply :
    P extends `tokens` ? TokenMade :
    never;
}
