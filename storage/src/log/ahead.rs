//! Memory in front of the appends: slabs and pages of the tail file are made ready by a helper, so that no append waits
//! while the kernel finds memory and clears it. Two megabytes of a slab take it a millisecond and more.

use std::rc::Rc;

use runtime::buffer::SlabWriter;

use super::Log;

impl Log {
    /// After an append: asks for what it has come close to.
    pub(super) fn ask_for_memory(&self) {
        if self.tail.borrow().wants_slab() {
            self.slab_wanted.notify();
        }
        if self.tail_file.borrow().as_ref().is_some_and(|file| file.wants_pages(self.marks.appended())) {
            self.pages_wanted.notify();
        }
    }

    /// The task that gets slabs. It may come too late or fail: then the appends do it themselves.
    pub(super) async fn ready_slabs_on(self: &Rc<Log>) {
        while !self.ended.get() && !self.marks.has_failed() {
            self.slab_wanted.notified().await;
            let (is_wanted, bytes) = (self.tail.borrow().wants_slab(), self.tail.borrow().slab_bytes());
            if is_wanted && let Ok(slab) = runtime::blocking(move || SlabWriter::allocate_ready(bytes)).await {
                self.tail.borrow_mut().add_free(slab);
            }
        }
    }

    /// The task that makes pages of the tail file ready; as with slabs.
    pub(super) async fn ready_pages_on(self: &Rc<Log>) {
        while !self.ended.get() && !self.marks.has_failed() {
            let appended = self.marks.appended();
            let pages = self.tail_file.borrow_mut().as_mut().and_then(|file| file.pages_ahead(appended));
            match pages {
                Some(pages) => runtime::blocking(move || pages.make_ready()).await,
                None => self.pages_wanted.notified().await,
            }
        }
    }
}
