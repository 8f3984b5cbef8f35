//! Shows what was found: on the terminal, and as a page with plots.

use crate::agreement::Compared;
use crate::section::Section;
use std::path::Path;

pub(crate) fn terminal(_sections: &[Section], _compared: Option<&[Compared]>) -> String {
    String::new()
}

pub(crate) async fn write(
    _docs: &Path,
    _sections: &[Section],
    _compared: Option<&[Compared]>,
) -> anyhow::Result<()> {
    Ok(())
}
