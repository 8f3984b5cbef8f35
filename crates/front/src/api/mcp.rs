//! The row of `/mcp`. The protocol behind it, and what it does, is in `crate::mcp`.

use super::route::{Access, Route, Trace};
use crate::control::Scope;
use crate::{Desk, DeskControl};

/// Whoever may look may come in; what a call may do is decided by its caller's scopes, act by act.
pub(super) fn row<D: Desk>() -> Route<D> {
    Route::any(
        "/mcp",
        Access::Scope(Scope::Read),
        Trace::Row,
        "The Model Context Protocol over streamable HTTP",
        |context| {
            let control = DeskControl::new(context.desk.clone());
            crate::mcp::route(control, context.stop.clone())
        },
    )
}
