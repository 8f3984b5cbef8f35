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

  /** Answer to `GET /v1/conversations`: where something happened last first. */
  type ConversationList = {
    /** The conversations. */
    conversations: Array<ActiveConversation>;
    /** What to give as `before` for the next page; absent on the last one. */
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

  /** Answer to `GET /v1/dead`: messages that only a person moves on, newest first. */
  type DeadList = {
    /** The messages. */
    dead: Array<DeadView>;
    /** What to give as `before` for the next page; absent on the last one. */
    next?: string | null;
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
    /** Names what is decided about: the same effect has the same digest. */
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
    /** Our own copy of it on this machine. Where several daemons share the database it is there once this one has shown the message by itself, or needed the file. */
    path: string;
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
    /** Who is told. */
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
    /** Names what is decided about: the same effect has the same digest. */
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
    /** Names what is decided about: the same effect has the same digest. */
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
    /** Daemons that share the database and have not left; absent where one has it for itself. */
    nodes?: Array<NodeView> | null;
    /** When the oldest message without an answer came. */
    oldest_unanswered_at?: string | null;
    /** How long ago that is, in milliseconds. */
    oldest_unanswered_ms?: number | null;
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
}
