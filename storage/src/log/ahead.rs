//! Memory in front of the appends: slabs and pages of the tail file are made ready by a helper, so that no append waits
//! while the kernel finds memory and clears it. Two megabytes of a slab take it a millisecond and more.

use std::rc::Rc;

use runtime::buffer::SlabWriter;

use super::Log;

impl Log {
    /// Whether the appends have come close to memory that is not ready.
    pub(super) fn wants_memory(&self) -> bool {
        self.tail.borrow().wants_slab()
            || self.tail_file.borrow().as_ref().is_some_and(|file| file.wants_pages(self.marks.appended()))
    }

    /// The task that gets memory ready. It may come too late or fail: then the appends do it themselves.
    pub(super) async fn ready_memory_on(self: &Rc<Log>) {
        while !self.ended.get() && !self.marks.has_failed() {
            if !self.wants_memory() {
                self.memory_wanted.notified().await;
                continue;
            }
            let appended = self.marks.appended();
            let pages = self.tail_file.borrow_mut().as_mut().and_then(|file| file.pages_ahead(appended));
            if let Some(pages) = pages {
                runtime::blocking(move || pages.make_ready()).await;
            }
            let bytes = self.tail.borrow().slab_bytes();
            if self.tail.borrow().wants_slab() {
                match runtime::blocking(move || SlabWriter::allocate_ready(bytes)).await {
                    Ok(slab) => self.tail.borrow_mut().add_free(slab),
                    Err(_) => self.memory_wanted.notified().await,
                }
            }
        }
    }
}
