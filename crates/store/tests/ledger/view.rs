//! Everything a reader can learn from a ledger, as text: two equal views mean equal ledgers.

use bridge_core::budget::DayBudget;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{
    AuditFilter, AuditQuery, HeadFilter, Ledger, Read, RowsError, SearchQuery, TaskQuery,
};
use bridge_core::task::TaskSnapshot;
use bridge_core::value::{ChannelId, Message, StateName, Tier, Timestamp};
use std::fmt::Debug;

struct View(Vec<String>);

impl View {
    fn add(&mut self, name: &str, value: impl Debug) {
        self.0.push(format!("{name}: {value:?}"));
    }

    fn globals(&mut self, rows: &dyn Read, now: Timestamp) -> Result<(), RowsError> {
        self.add("newest", rows.newest_messages(PAGE_MAX)?);
        self.add("two newest", rows.newest_messages(2)?);
        self.add("tokens", rows.tokens()?);
        self.add("conversations", rows.conversations(None, 3)?);
        let all = HeadFilter::default();
        self.add("heads", rows.heads(now, &all, PAGE_MAX)?);
        self.add("first head", rows.heads(now, &all, 1)?);
        self.filtered_heads(rows, now)?;
        self.quotas(rows, now)?;
        self.add("next due", rows.next_due(now)?);
        let newest = rows.conversations(None, 1)?;
        let somewhere: Vec<String> = newest.into_iter().map(|(one, _)| one.workdir).collect();
        for workdirs in [&[], somewhere.as_slice()] {
            let mut flight = rows.flight(workdirs)?;
            flight.sort_by_key(|flight| format!("{flight:?}"));
            self.add("flight", flight);
        }
        self.add("overdue", rows.overdue(now)?);
        self.add("round", rows.round()?);
        self.add("audit", rows.audit(PAGE_MAX)?);
        let query = AuditQuery {
            limit: PAGE_MAX,
            ..AuditQuery::default()
        };
        let acts = rows.audit_page(&query)?;
        self.add("acts", (acts.links, acts.before, acts.next, acts.ends));
        let filter = AuditFilter {
            actor: Some("me".to_owned()),
            since: Some(now.plus_ms(-30_000)),
            ..AuditFilter::default()
        };
        let filtered = rows.audit_page(&AuditQuery { filter, ..query })?;
        self.add("filtered acts", (filtered.links, filtered.next));
        for text in ["text", "ANSWER"] {
            let query = SearchQuery {
                text: text.to_owned(),
                before: None,
                limit: 3,
                reach: 20,
            };
            let page = rows.search(&query)?;
            // Numbers of rows may have gaps.
            let is_cut = page.next.is_some();
            self.add("search", (page.found, page.looked_at, is_cut));
        }
        self.add("failed", rows.failed()?);
        self.add("last redrive", rows.last_redrive()?);
        self.add("figures", rows.figures(Timestamp(0))?);
        self.add("senders", rows.recent_senders(now.plus_ms(-30_000))?);
        for state in [StateName::Done, StateName::Dead, StateName::Cancelled] {
            let ended = rows.finished_since(state, now.plus_ms(-30_000))?;
            self.add("finished", ended);
        }
        self.add("newest time", rows.newest_time()?);
        for state in StateName::ALL {
            self.add(state.as_str(), rows.messages_in(state, None, 3)?);
            let old = rows.forgettable(state, now.plus_ms(-1_000), 3)?;
            self.add("forgettable", old);
        }
        self.add("backlog", rows.backlog()?);
        self.add("unfinished", rows.unfinished(None, PAGE_MAX)?);
        self.add("counts", rows.counts()?);
        self.add("loans", rows.loans()?);
        self.add("lanes", rows.lanes(None, PAGE_MAX)?);
        self.add("incarnations", rows.live_incarnations()?);
        for life in rows.live_incarnations()? {
            self.add("turns on", vec![rows.turns_on(&life.incarnation_id)?]);
        }
        self.add("prefix", rows.message_ids_by_prefix("m", 3)?);
        self.add("end", rows.message_ids_by_end("1", 3)?);
        self.add("of key", rows.conversations_by_key("k1", 3)?);
        self.add("prunable", rows.prunable(now, 3)?);
        self.add("pruned", rows.pruned(3)?);
        self.add("tasks", rows.started_tasks(None, PAGE_MAX)?);
        self.add("tasks begin", rows.started_tasks_by_prefix("codex-", 3)?);
        self.add("all requests", rows.newest_requests(false, None, 3)?);
        self.add(
            "waiting requests",
            rows.newest_requests(true, None, PAGE_MAX)?,
        );
        self.add("overdue request", rows.overdue_requests(now, 2)?);
        self.add("next deadline", rows.next_deadline(now)?);
        let asked_by = now.plus_ms(-5_000);
        self.add("unreminded", rows.unreminded_requests(asked_by, 2)?);
        self.add("next unreminded", rows.next_unreminded(asked_by)?);
        self.a2a_tasks(rows, now)
    }

    fn quotas(&mut self, rows: &dyn Read, now: Timestamp) -> Result<(), RowsError> {
        self.add("quotas", rows.quotas()?);
        let held = rows.held_for_capacity(now, PAGE_MAX)?;
        self.add("held for capacity", held);
        self.add("capacity waiters", rows.capacity_waiters(now)?);
        Ok(())
    }

    fn a2a_tasks(&mut self, rows: &dyn Read, now: Timestamp) -> Result<(), RowsError> {
        self.add("pushes", rows.subscriptions_open(None, PAGE_MAX)?);
        for owner in ["ann", "bob"] {
            self.add("held", rows.pushes_held(owner)?);
            let mut query = TaskQuery {
                owner: owner.to_owned(),
                conversation: None,
                since: None,
                before: None,
                limit: 2,
            };
            let newest = rows.agent_tasks(&query)?;
            self.add("tasks counted", rows.agent_tasks_count(&query)?);
            if let Some((task, at)) = newest.last().cloned() {
                query.before = Some((at, task.task_id));
                self.add("older tasks", rows.agent_tasks(&query)?);
                query.conversation = Some(task.conversation_id);
                query.since = Some(at.plus_ms(-20_000));
                self.add("tasks of one conversation", rows.agent_tasks(&query)?);
                self.add("counted", rows.agent_tasks_count(&query)?);
            }
            self.add("a2a tasks", newest);
            let local = ChannelId::new("local");
            let since = now.plus_ms(-30_000);
            self.add("stored", rows.stored(&local, owner)?);
            let theirs = rows.unanswered_of_sender(owner, &[], None, PAGE_MAX)?;
            self.add("unanswered of sender", theirs);
            let (turns, tokens) = (Some(3), Some(25));
            let budget = DayBudget {
                turns,
                tokens,
                bytes: None,
            };
            let reached = rows.budget_reached(&local, owner, since, budget)?;
            self.add("budget reached", reached);
            self.add("used", rows.turns_used(&local, owner, since)?);
        }
        Ok(())
    }

    fn requests(&mut self, rows: &dyn Read, message: &Message) -> Result<(), RowsError> {
        let id = &message.message_id;
        let requests = rows.requests(id)?;
        for request in &requests {
            let verdict = request.state.verdict();
            self.add("answers", verdict.map(|verdict| verdict.answers.as_deref()));
            let named = rows.requests_named(id, &request.incarnation, &request.rpc_id)?;
            self.add("named", named);
            let older = rows.newest_requests(false, Some(&request.request_id), 2)?;
            self.add("older requests", older);
            let code = request.request_id.code();
            let with_code = rows.requests_by_code(&message.conversation_id, code)?;
            self.add("with code", with_code);
        }
        self.add("requests", requests);
        self.add("standings", rows.standings(id)?);
        self.add("live requests", rows.live_requests(id)?);
        self.add("asked", rows.requests_asked(id)?);
        Ok(())
    }

    fn filtered_heads(&mut self, rows: &dyn Read, now: Timestamp) -> Result<(), RowsError> {
        let filters = [
            HeadFilter {
                full_channels: vec![ChannelId::new("local"), ChannelId::new("o'ther \"\\")],
                ..HeadFilter::default()
            },
            HeadFilter {
                full_senders: vec![(ChannelId::new("local"), "ann".to_owned())],
                ..HeadFilter::default()
            },
            HeadFilter {
                owner_only: true,
                ..HeadFilter::default()
            },
            HeadFilter {
                owner_only: true,
                owners: vec![(ChannelId::new("local"), "ann".to_owned())],
                ..HeadFilter::default()
            },
            HeadFilter {
                people_only: vec![String::new()],
                ..HeadFilter::default()
            },
            HeadFilter {
                people_only: vec!["/homes/other".to_owned()],
                owners: vec![(ChannelId::new("local"), "ann".to_owned())],
                ..HeadFilter::default()
            },
            HeadFilter {
                no_suspects: true,
                ..HeadFilter::default()
            },
            HeadFilter {
                busy_workdirs: vec!["/work".to_owned()],
                readers: vec![Tier::Peer],
                ..HeadFilter::default()
            },
        ];
        for filter in filters {
            self.add("filtered heads", rows.heads(now, &filter, PAGE_MAX)?);
        }
        Ok(())
    }

    fn message(&mut self, rows: &dyn Read, message: &Message) -> Result<(), RowsError> {
        let id = &message.message_id;
        self.add("message", rows.message(id)?);
        self.add("position", rows.queue_position(message)?);
        let external = rows.message_by_external(&message.channel, &message.external_id)?;
        self.add("external", external.map(|message| message.message_id));
        for attempt in 0..=message.life.attempt {
            self.add("turn", rows.turn(id, attempt)?);
        }
        self.add("answer", rows.answer(id)?);
        self.add("replies", rows.replies(id)?);
        self.add("events", rows.events(id, 0, PAGE_MAX)?);
        self.add("later events", rows.events(id, 1, 2)?);
        self.add("last event", rows.last_event(id)?);
        self.add("older", rows.older_messages(id, 2)?);
        self.add("changed", rows.changed_since(message.life.updated_at, 3)?);
        self.requests(rows, message)?;
        if let Some(task_id) = rows.task_of_message(id)? {
            self.add("a2a task", TaskSnapshot::load(rows, &task_id)?);
            self.add("pushes of", rows.subscriptions_of(&task_id)?);
        }
        self.add("after", rows.unfinished(Some(id), 2)?);
        let conversation = &message.conversation_id;
        self.add(
            "waits behind",
            rows.unanswered_before(conversation, message.seq)?,
        );
        self.add("conversation", rows.conversation(conversation)?);
        let before = rows.messages_before(conversation, Some(message.seq), 2)?;
        self.add("before in it", before);
        let at = message.life.updated_at;
        let older = rows.conversations(Some((at, conversation)), 1)?;
        self.add("conversations before", older);
        let after = rows.messages_after(conversation, Some(message.seq), 2)?;
        self.add("after in it", after);
        let first = rows.messages_after(conversation, None, 1)?;
        self.add("first in it", first);
        let channel = std::slice::from_ref(&message.channel);
        let newest = rows.messages_of_sender(&message.sender, channel, None, 2)?;
        self.add("newest of sender", newest);
        let older = rows.messages_of_sender(&message.sender, channel, Some(id), 2)?;
        self.add("older of sender", older);
        let under = rows.conversations_under(&message.channel, "", Some((at, conversation)), 2)?;
        self.add("conversations under", under);
        self.add("loan", rows.loan(conversation)?);
        self.add("last seq", rows.last_seq(conversation)?);
        self.add("next reply", rows.next_reply(conversation)?);
        self.add("lanes after", rows.lanes(Some(conversation), 1)?);
        self.add("messages of", rows.messages_before(conversation, None, 2)?);
        self.add("last of", rows.last_messages(conversation, 2)?);
        self.add("task of", rows.started_task(conversation)?);
        self.add("in flight of", rows.in_flight_of(conversation)?);
        self.add("followers", rows.followers(id)?);
        let told = rows.exchanges(conversation, message.seq, 2)?;
        self.add("exchanges", told);
        let round = rows.last_round(&message.channel, &message.sender)?;
        self.add("last round", round);
        self.add("audit of", rows.audit_of(id, PAGE_MAX)?);
        let older = rows.messages_in(message.life.state.name(), Some(id), 2)?;
        self.add("older in state", older);
        Ok(())
    }
}

/// Everything that the newest messages lead to.
pub(crate) async fn everything<L: Ledger>(ledger: &L, now: Timestamp) -> Vec<String> {
    ledger
        .read(move |rows| {
            let mut view = View(Vec::new());
            view.globals(rows, now)?;
            for message in rows.newest_messages(PAGE_MAX)? {
                view.message(rows, &message)?;
            }
            Ok(view.0)
        })
        .await
        .unwrap()
}
