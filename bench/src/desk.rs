//! What accompanies a phase: whoever wants to see its intervals, and whoever may stop it.

use std::sync::Arc;

use runtime::process::StopSignal;

use crate::folder::PhaseFiles;
use crate::live::Live;
use crate::outage::Outage;
use crate::record::Gathered;
use crate::timeline::Row;

pub(crate) struct Desk {
    /// Ctrl-C: the phase ends, and with it the run.
    pub(crate) stop: Arc<StopSignal>,
    pub(crate) files: Option<PhaseFiles>,
    pub(crate) live: Option<Live>,
    pub(crate) outage: Option<Outage>,
}

impl Desk {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_asked()
    }

    /// So much of the measured span is over.
    pub(crate) fn passed(&mut self, share: f64) {
        if let Some(outage) = &mut self.outage {
            outage.look(share);
        }
    }

    /// An interval of the measured span is over.
    pub(crate) fn interval(&mut self, row: &Row, gathered: &Gathered) {
        if let Some(files) = &mut self.files {
            files.interval(row, gathered);
        }
        if let Some(live) = &self.live {
            live.interval(row);
        }
    }
}
