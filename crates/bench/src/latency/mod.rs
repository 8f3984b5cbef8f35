//! latency

use crate::ground::Ground;
use crate::section::Section;

pub(crate) async fn measure(_ground: &Ground) -> anyhow::Result<Section> {
    anyhow::bail!("not built yet")
}
