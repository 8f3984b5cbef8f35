//! Every numeric bound of the system, named and explained in one place.
//!
//! A bound that an operator may change is a default here and a key of `codex-bridge.toml`; the rest are
//! laws. Limits that belong to the wire of one peer (frame sizes, deadlines per method) live with that peer.

/// Codex refuses longer input (`input_too_large`), so we refuse it at the door, where the sender hears it.
pub const MESSAGE_MAX_CHARS: usize = 1_048_576;

/// Room that the bridge's own words may take in a turn's text, beside the message that they quote.
pub const OWN_WORDS_MAX_CHARS: usize =
    REASON_MAX_CHARS + 2_000 + 2 * RECAP_EXCHANGES as usize * RECAP_TEXT_MAX_CHARS;

/// Longest key a sender may choose for a conversation.
pub const CONVERSATION_KEY_MAX_CHARS: usize = 200;

/// Attempts a message may spend before it is buried. A claim spends one, also when daemon or Codex
/// die under it (from the second time on), so that a message which kills them is buried; waits for capacity or an operator, and turns that Codex never
/// took, give it back.
pub const ATTEMPTS_MAX: u32 = 3;

/// How often a turn that may have touched the world is continued before a person must look at it.
pub const CONTINUES_MAX: u32 = 2;

/// Turns that run at the same time unless the operator says otherwise.
pub const TURNS_IN_FLIGHT_DEFAULT: u32 = 16;

/// Of these, places that only people's messages take unless the operator says otherwise: two, so that one long turn of
/// a person does not make the next one wait; never more than half.
pub const TURNS_RESERVED_DEFAULT: u32 = 2;

/// Messages accepted and not yet finished; beyond it the door pushes back instead of dropping.
pub const BACKLOG_MAX: u32 = 10_000;

/// Messages of a conversation that a running turn may be given while it works; later ones wait for their own.
pub const FOLLOWERS_MAX: u32 = 16;

/// Agents that may answer each other before the loop guard stops them, unless the operator says otherwise: two of them
/// would thank each other for ever.
pub const HOPS_DEFAULT: u32 = 8;
/// Messages of one agent within ten minutes, where nobody counts hops, unless the operator says otherwise: two that
/// thank each other at once wait within minutes.
pub const AGENT_MESSAGES_PER_TEN_MINUTES_DEFAULT: u32 = 30;
/// The same within a day, which slows slow ones down.
pub const AGENT_MESSAGES_PER_DAY_DEFAULT: u32 = 300;
/// What an agent whose talks are counted one by one may say in all of them within a day: ten times what one talk
/// allows, so that many talks at once are no loop, and one that begins a new talk with every answer waits all the same.
pub const AGENT_MESSAGES_PER_DAY_IN_ALL_DEFAULT: u32 = 3_000;

/// Longest time that the loop guard lets a message wait; what would wait longer is stopped.
pub const LOOP_WAIT_MAX_MS: i64 = 24 * 3_600_000;

/// Newest messages among which that of a sender, or one by the end of its id, is looked for.
pub const LOOKED_BACK_MAX: u32 = 100_000;
/// Unanswered messages of a conversation that a list looks at: more rarely wait at once.
pub const ACTIVE_MESSAGES: u32 = 16;
/// Fewest characters of an id that name a message or a task.
pub const REFERENCE_MIN_CHARS: usize = 4;
/// Candidates that are shown where a reference names several.
pub const CANDIDATES_MAX: u32 = 20;
/// Characters of a message's id that people are shown, from its random end.
pub const SHORT_ID_CHARS: usize = 8;

/// Newest messages that one search looks through.
pub const SEARCH_SCAN_MAX: u32 = 2_000;
/// So many of them at a time: each may have a text and an answer of a mebibyte, and others read meanwhile.
pub const SEARCH_CHUNK: u32 = 100;
/// Conversations that one page of a filtered list looks at.
pub const CONVERSATIONS_SCAN_MAX: u32 = 500;
/// Newest messages among which senders are looked for.
pub const SENDERS_SCAN_MAX: u32 = 10_000;
/// Messages of each end that figures are made of.
pub const FIGURES_SCAN_MAX: u32 = 20_000;

/// Acts that one filtered page of the audit looks at.
pub const AUDIT_SCAN_MAX: u32 = 10_000;

/// How long what a sender used counts against its budget.
pub const BUDGET_WINDOW_MS: i64 = 24 * 3_600_000;

/// What a sender stores is counted by hours of this length.
pub const STORED_HOUR_MS: i64 = 3_600_000;
/// Hours that one look at them reads: those of a day, the one that began it and the present one.
pub const STORED_HOURS_READ: u32 = 26;
/// Bytes that one sender of a tier may store within a day unless the operator says otherwise: a month of it is 7.5 GiB.
pub const BYTES_PER_DAY_DEFAULT: u64 = 256 * 1024 * 1024;
/// What the rows of a message take beside its text and files; also a message without a text is counted.
pub const MESSAGE_ROW_BYTES: u64 = 1024;
/// What is kept of the text of a message that a guard refused.
pub const EXCERPT_MAX_CHARS: usize = 500;

/// Words that one task may have; whoever wants to say more begins another one in the same conversation.
pub const TASK_INPUTS_MAX: usize = 500;

/// Messages of a conversation that one `/stop` ends; more than that never wait in practice.
pub const STOP_MAX: u32 = 100;

/// Rows that one page of a source may bring into one transaction; the rest must be shown again.
pub const PAGE_ROWS_MAX: usize = 500;

/// How long a person may take to say how a cut message goes on; silence gives it up.
pub const PARKED_MS: i64 = 24 * 3_600_000;

/// Earlier messages in the recap of a new thread when the old one is lost.
pub const RECAP_EXCHANGES: u32 = 10;
/// Longest text of one side of one exchange in a recap.
pub const RECAP_TEXT_MAX_CHARS: usize = 2_000;

/// Dead letters that one command sends again; each goes through the ordinary queue.
pub const REDRIVE_MAX: u32 = 100;
/// How long after the one before it the next of them may have its turn.
pub const REDRIVE_PAUSE_MS: i64 = 1_000;

/// The longest time after which a source may show a row again; a channel with a longer one must raise it.
pub const REDELIVERY_MS: i64 = 7 * 24 * 3_600_000;

/// Finished rows that one pruning transaction removes, so that the ledger is never held for long.
pub const PRUNE_BATCH: u32 = 200;

/// How long a conversation is lent to a terminal unless somebody says otherwise.
pub const LOAN_DEFAULT_MS: i64 = 4 * 3_600_000;
/// The longest loan: a forgotten one ends, and messages wait no longer for it.
pub const LOAN_MAX_MS: i64 = 24 * 3_600_000;
/// How long a loan that waits for a running turn lasts after its lender last asked.
pub const LOAN_PENDING_MS: i64 = 30_000;
/// Turns of one loan that become part of the conversation's record, the newest ones; Codex's thread has them all.
pub const LOAN_TURNS_MAX: usize = 200;
/// Waiting messages that are put behind what was said during a loan. Where more wait, all keep their places.
pub const LOAN_WAITING_MAX: u32 = 500;
/// Pause between two tries to take a thread back, while a terminal still has it open.
pub const LOAN_RETRY_MS: i64 = 2_000;
/// Newest messages that are looked at for strangers before a conversation is lent.
pub const LOAN_SENDERS_SCAN_MAX: u32 = 500;

/// How long a node that is gone is remembered, if no conversation waits for it.
pub const NODE_KEPT_MS: i64 = 30 * 24 * 3_600_000;

/// Files that a sweep looks at together: every look reads all lists of files that rows have.
pub const FILES_SCAN_MAX: u32 = 50_000;

/// Files that one transaction removes from the ledger.
pub const FILES_DROPPED: usize = 20;

/// Bytes of a file in one row of the ledger, and so in one transaction: all nodes wait while it is written.
pub const FILE_PIECE_BYTES: usize = 1 << 20;

/// First wait before a turn is tried again; doubles each time; half of it is jitter.
pub const TURN_BACKOFF_BASE_MS: i64 = 2_000;
/// Longest wait between two tries of a turn.
pub const TURN_BACKOFF_MAX_MS: i64 = 15 * 60_000;

/// First wait before a reply is sent again.
pub const REPLY_BACKOFF_BASE_MS: i64 = 1_000;
/// Longest wait between two sends of one reply.
pub const REPLY_BACKOFF_MAX_MS: i64 = 60_000;
/// Longest wait between two sends of one notification: nobody sits before it.
pub const NOTIFY_BACKOFF_MAX_MS: i64 = 10 * 60_000;

/// A reply that could not be delivered for this long after its first try is given up and kept as a dead letter.
pub const REPLY_AGE_MAX_MS: i64 = 24 * 3_600_000;

/// How long before a reply's first try others that say the same and were taken are counted when it is looked for;
/// longer where one of them was tried for longer.
pub const TWIN_WINDOW_MS: i64 = 10 * 60_000;

/// How soon a message that waits for the operator (no login, broken config) is looked at again by default.
pub const CONFIG_PROBE_MS: i64 = 15_000;
/// A message that waited this long for an operator or for capacity becomes a dead letter.
pub const HELD_AGE_MAX_MS: i64 = 7 * 24 * 3_600_000;

/// A reset of an account's limit that is further away is not believed: the longest window that providers have is a month.
pub const QUOTA_WINDOW_MAX_MS: i64 = 32 * 24 * 3_600_000;
/// By so much the reset of the same window may move from report to report; what moves less is not written.
pub const QUOTA_RESET_JITTER_MS: i64 = 2 * 60_000;
/// Reports of accounts that a claim looks at: one for each CODEX_HOME of each node.
pub const QUOTAS_MAX: u32 = 256;
/// Held messages that are let go of in one transaction when an account's limit is there again before its time.
pub const QUOTA_FREED_AT_ONCE: u32 = 100;
/// How far back answers are counted to say when a waiting message is expected to be worked on.
pub const PACE_WINDOW_MS: i64 = 3_600_000;

/// A person at a terminal is kept waiting for capacity only if it is expected back within this time.
pub const WAIT_WORTHWHILE_MS: i64 = 2 * 60_000;

/// How soon a lost turn is looked at again when the look itself failed.
pub const RECONCILE_RETRY_MS: i64 = 2_000;

/// What is older than this when it is noticed is sent to nobody: a day's failures are enough for whoever comes back.
pub const ALERT_AGE_MS: i64 = 24 * 3_600_000;
/// The time in which [`ALERTS_SINGLE_MAX`] is counted, and between two summaries.
pub const ALERTS_WINDOW_MS: i64 = 60_000;
/// Alerts that people are sent one by one in that time; beyond it they get a summary.
pub const ALERTS_SINGLE_MAX: u64 = 5;
/// Alerts in one summary; what is over waits for the next.
pub const ALERTS_TOGETHER_MAX: u32 = 500;
/// How long sent alerts are remembered.
pub const ALERT_KEPT_MS: i64 = 30 * 24 * 3_600_000;
/// Browsers of one session that take Web Push.
pub const DEVICES_PER_SESSION_MAX: usize = 4;
/// Targets of the configuration that are alerted.
pub const ALERT_TARGETS_MAX: usize = 16;
/// Push configurations of one task: each gets every event.
pub const PUSHES_PER_TASK_MAX: u32 = 16;
/// Open push configurations of one owner.
pub const PUSHES_PER_OWNER_MAX: u32 = 1_000;

/// Item-level events kept per message; later ones are counted, not kept.
pub const EVENTS_PER_MESSAGE_MAX: u32 = 500;
/// Longest text of one item-level event.
pub const EVENT_TEXT_MAX_CHARS: usize = 500;

/// Tasks of the older tool that are taken over, the newest ones: one transaction writes them.
pub const IMPORTED_TASKS_MAX: usize = 1_000;
/// Events of such a task, the newest ones: as many as the older tool showed.
pub const IMPORTED_EVENTS_PER_TASK_MAX: usize = 20;

/// Longest reason stored with a failure.
pub const REASON_MAX_CHARS: usize = 2_000;

/// Longest payload of an approval request that is kept; Codex's own limit on a text.
pub const REQUEST_PAYLOAD_MAX_CHARS: usize = MESSAGE_MAX_CHARS;
/// Longest facts of an approval request that are kept for a later look at the rules.
pub const EFFECT_MAX_BYTES: usize = 65_536;

/// Claims that the scheduler asks for at the same time while it finds something each time.
pub const CLAIMS_AT_ONCE_MAX: usize = 16;

/// Longest summary of a task's prompt.
pub const PROMPT_SUMMARY_MAX_CHARS: usize = 300;
/// Tokens of the API that are good at the same time; every call is compared with all of them.
pub const TOKENS_MAX: usize = 200;
/// Sessions of the console that are good at the same time, with the codes that may still become some.
pub const SESSIONS_MAX: usize = 32;
/// How long a code for the console is good.
pub const LOGIN_MS: i64 = 5 * 60 * 1_000;
/// How long the row of a login or session that is over is kept: longer than another node may know it, and than what came
/// with it may take to arrive.
pub const ENDED_KEPT_MS: i64 = 15 * 60 * 1_000;
/// How long a session of the console is good.
pub const SESSION_MS: i64 = 30 * 24 * 3_600 * 1_000;
/// How long a session of the console is good without being used.
pub const SESSION_IDLE_MS: i64 = 7 * 24 * 3_600 * 1_000;
/// Approval requests that one message may make Codex ask; later ones are declined, so that a loop can't flood whoever
/// decides.
pub const REQUESTS_PER_MESSAGE_MAX: u32 = 1_000;
/// What a chat is shown of an approval request; the whole of it is on the owner's surfaces.
pub const SHOWN_IN_CHAT_MAX_CHARS: usize = 4_000;
/// Turns that wait for a person take no place of a working one, but so many times the places are never exceeded in all.
pub const WAITING_TURNS_FACTOR: u32 = 4;

/// Hard bound on rows that one read returns.
pub const PAGE_MAX: u32 = 500;

/// Conversations of one node are counted as far as this: it may have had millions, and people look every second.
pub const HOMES_COUNTED_MAX: u32 = 10_000;

/// What is kept of the text of a message that a guard refused: whoever looks at the dead letter sees that it is cut.
#[must_use]
pub fn excerpt(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= EXCERPT_MAX_CHARS {
        return text.to_owned();
    }
    let kept: String = text.chars().take(EXCERPT_MAX_CHARS).collect();
    format!(
        "{kept}\n[codex-bridge refused this message and kept its first {EXCERPT_MAX_CHARS} of {chars} characters]"
    )
}

/// Cuts `text` to at most `max` characters, marking the cut.
#[must_use]
pub fn clip(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}
