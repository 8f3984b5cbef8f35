//! One look at the platform for `doctor`: is it there, does it take our token, what does it say of the workspace, and
//! do its clock and ours agree. It changes nothing there.

use crate::http::{HttpError, accept, body, parse};
use crate::molecule::Molecule;
use crate::molecule::client::{FeedQuery, PAGE_ROWS};
use crate::molecule::row::origin::is_marked;
use crate::molecule::wire::{Stamp, WorkspaceView};
use crate::poll::now;
use reqwest::StatusCode;
use std::time::Duration;

/// How long one call may take.
const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// The longest description of a workspace.
const VIEW_MAX_BYTES: usize = 256 << 10;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// What the platform says of the workspace, or why it says nothing.
    pub workspace: Option<ExaminedWorkspace>,
    /// Why the platform can't be asked.
    pub unreached: Option<String>,
    /// Why its feed can't be read; absent when it can.
    pub refused: Option<String>,
    /// Whether it says who writes at its canvas.
    pub marks: Marks,
    /// How far the platform's clock is ahead of ours, in milliseconds.
    pub skew_ms: Option<i64>,
}

/// Whether a platform says who writes at its canvas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// A message among the newest carries its mark.
    Seen,
    /// It is of an edition that has no marks.
    Absent,
    /// No message among the newest carries the mark.
    #[default]
    Unknown,
}

/// What the platform says of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExaminedWorkspace {
    /// Its name.
    pub name: String,
    /// Its status there, such as `online`.
    pub status: String,
}

impl Molecule {
    pub async fn examine(&self) -> Examined {
        let mut found = Examined::default();
        let client = &self.0.client;
        match accept(client.get(&[]).timeout(CALL_DEADLINE)).await {
            Ok(response) => {
                let date = Stamp::of_date(response.headers());
                found.skew_ms = date.map(|date| (date.0 / 1_000).saturating_sub(now().0));
                let view = match body(response, VIEW_MAX_BYTES).await {
                    Ok(bytes) => parse::<WorkspaceView>(&bytes),
                    Err(error) => Err(error),
                };
                match view {
                    Ok(view) => {
                        found.workspace = Some(ExaminedWorkspace {
                            name: view.name.unwrap_or_default(),
                            status: view.status.unwrap_or_default(),
                        });
                    }
                    Err(error) => found.unreached = Some(error.to_string()),
                }
            }
            Err(HttpError::Status(refused)) if refused.status == StatusCode::GONE => {
                found.workspace = Some(ExaminedWorkspace {
                    name: String::new(),
                    status: "removed".to_owned(),
                });
                return found;
            }
            Err(error) => {
                found.unreached = Some(error.to_string());
                return found;
            }
        }
        found.refused = self.feed_refused().await;
        found.marks = self.marks().await;
        found
    }

    async fn marks(&self) -> Marks {
        let page = self.0.client.feed(&FeedQuery::default(), PAGE_ROWS).await;
        let rows = page.map(|page| page.rows).unwrap_or_default();
        let marked: Vec<bool> = rows.iter().filter_map(is_marked).collect();
        // Unmarked rows prove only the oldest editions: a newer one has them from `/a2a/inbound` too.
        let oldest = rows.iter().all(|row| row.seq().is_none());
        match (marked.contains(&true), marked.is_empty()) {
            (true, _) => Marks::Seen,
            (false, false) if oldest => Marks::Absent,
            (false, _) => Marks::Unknown,
        }
    }

    /// Asked after the platform has described the workspace, which it can't while its database is away: so a refused
    /// token is a wrong one, and no heartbeat need be sent to know it.
    async fn feed_refused(&self) -> Option<String> {
        let feed = FeedQuery {
            since_secs: Some(1),
            ..FeedQuery::default()
        };
        match self.0.client.feed(&feed, 1).await {
            Ok(_) => None,
            Err(error) if error.status() == Some(StatusCode::UNAUTHORIZED) => {
                let (_, why) = self.wrong_token().health();
                Some(why)
            }
            Err(error) => Some(error.to_string()),
        }
    }
}
