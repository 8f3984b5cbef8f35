//! ancestor

use crate::args::Ancestor;

pub(crate) async fn run(_args: Ancestor) -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
