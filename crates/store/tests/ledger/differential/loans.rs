//! Loans among the random transitions: messages wait, turns of a terminal come in, and what waited goes behind them.

use super::Pair;
use crate::given::{conversation, ended_loan, terminal_turn};
use bridge_core::step::{Lend, ReturnLoan};
use bridge_core::value::LoanId;

impl Pair {
    pub(super) async fn lend(&mut self, key: &str) {
        let conversation_id = conversation(key);
        let loan_id = LoanId::new(self.dice.choose(&["l1", "l2"]));
        match self.dice.below(5) {
            0..2 => {
                self.both(Lend {
                    conversation_id,
                    loan_id,
                    borrower: "me".to_owned(),
                    until: self.now.plus_ms(10_000),
                })
                .await;
            }
            2 => {
                self.both(ReturnLoan {
                    conversation_id,
                    loan_id: Some(loan_id),
                    by: "me".to_owned(),
                })
                .await;
            }
            _ => {
                let thread = self.dice.choose(&["thread", "other"]);
                let mut end = ended_loan(key, thread, Vec::new());
                end.loan_id = loan_id;
                for turn in 0..self.dice.below(3) {
                    let number = u64::from(self.step) * 10 + turn;
                    end.said.push(terminal_turn(number));
                }
                self.both(end).await;
            }
        }
    }
}
