//! Lends a conversation to a Codex terminal, for the owner at this machine. Taking it back is `crate::turn::loans`.

use crate::api::service::DaemonService;
use crate::turn::loans::LentRows;
use bridge_core::deadline::after;
use bridge_core::port::{Agent, Ledger, LedgerError};
use bridge_core::step::{Lend, LendOutcome, LoanOpened, ReturnLoan};
use bridge_core::value::{Class, ConversationId, Failure, Loan, LoanId, Message, ThreadId};
use bridge_front::{BridgeService, Lending, LoanReturned, NewLoan, TerminalView};
use bridge_host::TerminalCommand;
use std::time::Duration;

/// How long whoever returns a conversation waits until its thread is back; it comes back later all the same.
const RETURN_WAIT: Duration = Duration::from_secs(15);

impl<L: Ledger> DaemonService<L> {
    /// The row first: from then on nothing is begun in the conversation, whatever becomes of us.
    pub(crate) async fn lend_thread(&self, new: NewLoan) -> Result<Lending, LedgerError> {
        let id = new.conversation_id.clone();
        let read = self
            .daemon
            .ledger
            .read(move |rows| LentRows::load(rows, &id));
        let Some(lent) = read.await? else {
            return Ok(Lending::NoThread);
        };
        if !new.strangers
            && let Some(who) = lent.stranger()
        {
            return Ok(Lending::Stranger { who });
        }
        let (Some(thread), Some(message)) = (&lent.conversation.thread, &lent.message) else {
            return Ok(Lending::NoThread);
        };
        let by = new.borrower.clone();
        let lend = Lend {
            conversation_id: new.conversation_id,
            loan_id: new.loan_id,
            borrower: new.borrower,
            until: new.until,
        };
        let loan = match self.commit(lend).await? {
            LendOutcome::Lent(loan) => loan,
            LendOutcome::Busy { loan, message_id } => {
                return Ok(Lending::Busy { loan, message_id });
            }
            LendOutcome::Taken(loan) => return Ok(Lending::Taken(loan)),
            LendOutcome::NoThread => return Ok(Lending::NoThread),
        };
        let opened = self.open_thread(&lent, &loan, (thread, message)).await;
        let why = match opened {
            Ok(terminal) => return Ok(Lending::Ready { loan, terminal }),
            // Codex ends a turn a moment after its answer.
            Err(failure) if matches!(failure.class, Class::Capacity { .. }) => {
                let message_id = None;
                return Ok(Lending::Busy { loan, message_id });
            }
            Err(failure) => failure.reason,
        };
        self.commit(returned(&loan, by)).await?;
        Ok(Lending::Failed { why })
    }

    /// Has Codex let go of the thread; what opens it.
    async fn open_thread(
        &self,
        lent: &LentRows,
        loan: &Loan,
        (thread, message): (&ThreadId, &Message),
    ) -> Result<TerminalView, Failure> {
        let (daemon, conversation) = (&self.daemon, &lent.conversation);
        let spec = daemon.spec_of(message, conversation).await?;
        crate::turn::make_workdir(conversation)?;
        let home = spec.codex_home.as_deref();
        let ready = daemon.agent.ready(home).await;
        ready.map_err(|error| error.failure)?;
        daemon.bring_thread(conversation, thread, &spec).await?;
        let terminal = daemon.agent.inner().terminal(thread, &spec).await;
        let terminal = terminal.map_err(|error| error.failure)?;
        let released = daemon.agent.release_thread(thread, &spec).await;
        if let Some(newest) = released.map_err(|error| error.failure)? {
            let opened = LoanOpened {
                conversation_id: loan.conversation_id.clone(),
                loan_id: loan.loan_id.clone(),
                newest,
            };
            let noted = self.commit(opened).await;
            noted.map_err(|error| Failure::new(error.class(), error.to_string()))?;
        }
        Ok(view(terminal))
    }

    pub(crate) async fn return_thread(
        &self,
        id: &ConversationId,
        loan_id: Option<LoanId>,
        by: &str,
    ) -> Result<LoanReturned, LedgerError> {
        let tried = &self.daemon.turns.loans.tried;
        let end = after(tokio::time::Instant::now(), RETURN_WAIT);
        let mut attempt = Box::pin(tried.notified());
        attempt.as_mut().enable();
        let back = ReturnLoan {
            conversation_id: id.clone(),
            loan_id,
            by: by.to_owned(),
        };
        let Some(loan) = self.commit(back).await? else {
            return Ok(LoanReturned::NotLent);
        };
        loop {
            let of = id.clone();
            let found = self.daemon.ledger.read(move |rows| rows.loan(&of)).await?;
            let Some(found) = found.filter(|found| found.loan_id == loan.loan_id) else {
                return Ok(LoanReturned::Back);
            };
            if let Some(why) = found.error {
                return Ok(LoanReturned::Waits { why });
            }
            if tokio::time::timeout_at(end, attempt.as_mut())
                .await
                .is_err()
            {
                let why = "its thread is being taken back; `codex-bridge status` shows when it is";
                return Ok(LoanReturned::Waits {
                    why: why.to_owned(),
                });
            }
            attempt = Box::pin(tried.notified());
            attempt.as_mut().enable();
        }
    }
}

fn returned(loan: &Loan, by: String) -> ReturnLoan {
    ReturnLoan {
        conversation_id: loan.conversation_id.clone(),
        loan_id: Some(loan.loan_id.clone()),
        by,
    }
}

fn view(command: TerminalCommand) -> TerminalView {
    TerminalView {
        program: command.program.display().to_string(),
        args: command.args,
        workdir: command.workdir,
        codex_home: command.codex_home.map(|home| home.display().to_string()),
    }
}
