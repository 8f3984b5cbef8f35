//! The news of tasks. A stand-in: a snapshot and the states behind it, until the teller of each task is here.

use super::extension::SEQUENCE_KEY;
use super::fault::Fault;
use super::task::{self, Detail};
use crate::{Desk, Live};
use a2a::{StreamResponse, TaskStatusUpdateEvent};
use bridge_core::errand::ErrandView;
use bridge_core::port::Ledger;
use bridge_core::value::ErrandId;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;
use tokio::sync::mpsc;

#[derive(Debug)]
pub(crate) struct Tellers<D>(PhantomData<fn() -> D>);

impl<D> Default for Tellers<D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

pub(crate) struct Told {
    pub(crate) seq: u64,
    pub(crate) event: Arc<StreamResponse>,
}

pub(crate) struct Listener(mpsc::Receiver<Told>);

impl<D: Desk> Tellers<D> {
    pub(crate) async fn listen(
        &self,
        desk: &D,
        errand_id: &ErrandId,
        _after: Option<u64>,
    ) -> Result<Listener, Fault> {
        let (sender, receiver) = mpsc::channel(8);
        tokio::spawn(tell(desk.clone(), errand_id.clone(), sender));
        Ok(Listener(receiver))
    }
}

async fn tell<D: Desk>(desk: D, errand_id: ErrandId, sender: mpsc::Sender<Told>) {
    let mut last = None;
    let mut seq = 0;
    loop {
        let id = errand_id.clone();
        let read = desk.ledger().read(move |rows| ErrandView::load(rows, &id));
        let Ok(Some(view)) = read.await else { return };
        let stand = view.now();
        if last != Some(stand.state) {
            seq += 1;
            let metadata = Some(HashMap::from([(SEQUENCE_KEY.to_owned(), seq.into())]));
            let event = match last {
                None => StreamResponse::Task(a2a::Task {
                    metadata,
                    ..task::task(&desk, "", &view, Detail::WHOLE).await
                }),
                Some(_) => StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                    task_id: errand_id.to_string(),
                    context_id: task::context_of(&view).to_owned(),
                    status: task::status(&view),
                    metadata,
                }),
            };
            let event = Arc::new(event);
            if sender.send(Told { seq, event }).await.is_err() {
                return;
            }
            last = Some(stand.state);
        }
        if stand.state.terminal() {
            return;
        }
        let last_message = view.messages.last();
        let news = last_message.and_then(|one| desk.hub().watch(&one.message.message_id));
        let Some(mut news) = news else { return };
        while news.next().await != Live::Changed {}
    }
}

impl Listener {
    pub(crate) async fn next(&mut self) -> Option<Told> {
        self.0.recv().await
    }
}
