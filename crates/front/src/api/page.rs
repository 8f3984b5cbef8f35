//! Pages: how many, and from where on. `next` of one page is `before` of the following one.

use bridge_core::limits::PAGE_MAX;
use schemars::JsonSchema;
use serde::Deserialize;

/// Rows on a page for those who name no number.
const PAGE_DEFAULT: u32 = 50;

/// Which page of a list, newest first.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// How many, at most; 50 when absent.
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<u32>,
    /// Older than this one: the `next` of the page before.
    pub(crate) before: Option<String>,
}

impl Page {
    pub(crate) fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX)
    }

    /// What the following page is before. A whole page may be the last one too; then the next one is empty.
    pub(crate) fn next<T>(rows: &[T], limit: u32, id: impl Fn(&T) -> String) -> Option<String> {
        match rows.last() {
            Some(last) if rows.len() >= limit as usize => Some(id(last)),
            Some(_) | None => None,
        }
    }
}
