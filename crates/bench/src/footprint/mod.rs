//! How small, and how far one Codex carries: memory and descriptors, the start, and many threads in one process.
//! Each file measures one of them; here they become one section.

mod backlog;
mod memory;
mod start;
mod threads;

use crate::ground::Ground;
use crate::section::Section;

pub(crate) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let mut section = Section {
        title: "Memory, start, many threads".to_owned(),
        ..Section::default()
    };
    memory::measure(ground).await?.tell(&mut section);
    start::measure(ground).await?.tell(&mut section);
    threads::measure(ground).await?.tell(&mut section);
    Ok(section)
}
