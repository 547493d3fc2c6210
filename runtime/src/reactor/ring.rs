//! Our own reactor: tasks of one thread and one io_uring, entered once a turn.
//!
//! A turn runs the tasks that are ready, gives the kernel what they asked for, and takes what has completed; with
//! nothing ready it sleeps in the same call. A task that other threads wake goes through a list with a lock, which is
//! looked at once a turn, and an eventfd that is written only while the core sleeps.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_task::Runnable;
use crossbeam_queue::SegQueue;
use io_uring::{IoUring, opcode, squeue, types};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::Pid;
use slab::Slab;

use super::Readiness;
use crate::clock::Stamp;
use crate::core::Share;
use crate::turns;

const RING_ENTRIES: u32 = 1024;
/// Tasks run in one turn before the ring is looked at.
const TASKS_A_TURN: u32 = 128;
/// Background tasks run for so long in one turn, and then until the one that runs lets go: what arrives meanwhile is seen
/// at the next turn. A message waits for it at each of the four turns on its way.
const BACKGROUND_SLICE: Duration = Duration::from_micros(20);
/// A task that has kept the core for so long lets others run when it may.
const SLICE: Duration = Duration::from_micros(500);
/// Completions of operations that nobody waits for.
const NOBODY: u64 = u64::MAX;
/// The completion of the read of the core's own eventfd.
const OTHERS: u64 = u64::MAX - 1;

/// How an operation ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// What the kernel returned.
    pub(crate) result: i32,
    /// When its end was seen; of those only that belong to a chain of several.
    pub(crate) at: Option<Stamp>,
}

/// A chain of operations in the kernel's hands.
struct Operation {
    pending: u32,
    outcomes: Vec<Outcome>,
    waker: Option<Waker>,
    /// Nobody waits any more.
    abandoned: bool,
    _keep: Box<dyn Any>,
}

/// What threads other than the core's own may touch.
struct Others {
    /// Tells the core's own thread from all others, see [`thread_token`].
    thread: usize,
    woken: SegQueue<Runnable>,
    event: EventFd,
    sleeping: AtomicBool,
}

struct Core {
    ring: RefCell<IoUring>,
    operations: RefCell<Slab<Operation>>,
    data: RefCell<VecDeque<Runnable>>,
    background: RefCell<VecDeque<Runnable>>,
    timers: RefCell<BTreeMap<(Instant, u64), Waker>>,
    next_timer: Cell<u64>,
    slice_began: Cell<Instant>,
    /// The share of the task that runs.
    running: Cell<Share>,
    /// Tasks that ran in the turn that began last, until it has ended.
    turn_tasks: Cell<Option<u32>>,
    /// Lives as long as the process: wakers on other threads may outlive the core.
    others: &'static Others,
    /// Where the kernel puts the counter of the eventfd. Lives as long as the ring.
    counter: Box<Cell<u64>>,
}

thread_local! {
    static CORE: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

/// A number that no other living thread has: cheaper than the thread's id, which is asked at every wake.
fn thread_token() -> usize {
    thread_local! {
        static TOKEN: u8 = const { 0 };
    }
    TOKEN.with(|token| std::ptr::from_ref(token) as usize)
}

fn core() -> Rc<Core> {
    CORE.with_borrow(|core| core.clone()).expect("this is called on a core")
}

pub(super) fn run<T: 'static>(cpu: Option<usize>, main: impl Future<Output = T> + 'static) -> io::Result<T> {
    if let Some(cpu) = cpu {
        let mut set = CpuSet::new();
        set.set(cpu)?;
        sched_setaffinity(Pid::from_raw(0), &set)?;
    }
    let Entered(core) = &Entered::enter(Core::new()?);
    let outcome = Rc::new(RefCell::new(None));
    let filling = outcome.clone();
    spawn(Share::Data, async move {
        let result = main.await;
        *filling.borrow_mut() = Some(result);
    });
    core.wait_for_others();
    loop {
        core.run_tasks();
        if let Some(result) = outcome.borrow_mut().take() {
            return Ok(result);
        }
        core.turn()?;
    }
}

/// A thread that is a core, until this is dropped: also when a task panics, whose words would be lost otherwise.
struct Entered(Rc<Core>);

impl Entered {
    fn enter(core: Core) -> Entered {
        let core = Rc::new(core);
        CORE.set(Some(core.clone()));
        Entered(core)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.end();
        CORE.set(None);
    }
}

pub(super) fn spawn(share: Share, future: impl Future<Output = ()> + 'static) {
    spawn_by(move || share, future);
}

/// Starts a task that runs in the share that `share` says each time it is woken.
pub(super) fn spawn_by(share: impl Fn() -> Share + Send + Sync + 'static, future: impl Future<Output = ()> + 'static) {
    let others = CORE.with_borrow(|core| core.as_ref().expect("this is called on a core").others);
    let schedule = move |runnable: Runnable| {
        if thread_token() == others.thread {
            CORE.with_borrow(|core| {
                // A task that is woken while the core ends is dropped with it.
                if let Some(core) = core {
                    core.queue(share()).borrow_mut().push_back(runnable);
                }
            });
        } else {
            others.woken.push(runnable);
            others.ring();
        }
    };
    let (runnable, task) = async_task::spawn_local(future, schedule);
    task.detach();
    runnable.schedule();
}

impl Others {
    fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::SeqCst) {
            self.event.write(1).expect("an eventfd counter far below its limit takes a write");
        }
    }
}

impl Core {
    fn new() -> io::Result<Core> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_cqsize(RING_ENTRIES * 4)
            .build(RING_ENTRIES)
            .map_err(|error| io::Error::new(error.kind(), format!("no io_uring: {error}")))?;
        Ok(Core {
            ring: RefCell::new(ring),
            operations: RefCell::default(),
            data: RefCell::default(),
            background: RefCell::default(),
            timers: RefCell::default(),
            next_timer: Cell::new(0),
            slice_began: Cell::new(Instant::now()),
            running: Cell::new(Share::Data),
            turn_tasks: Cell::new(None),
            others: Box::leak(Box::new(Others {
                thread: thread_token(),
                woken: SegQueue::new(),
                event: EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?,
                sleeping: AtomicBool::new(false),
            })),
            counter: Box::new(Cell::new(0)),
        })
    }

    fn queue(&self, share: Share) -> &RefCell<VecDeque<Runnable>> {
        match share {
            Share::Data => &self.data,
            Share::Background => &self.background,
        }
    }

    /// Runs what is ready, for one turn.
    fn run_tasks(&self) {
        while let Some(runnable) = self.others.woken.pop() {
            // On its own thread now: it goes to its queue.
            runnable.schedule();
        }
        let now = Instant::now();
        self.end_turn(now);
        self.slice_began.set(now);
        let tasks = self.run_data() + self.run_background();
        self.turn_tasks.set(Some(tasks));
    }

    fn run_data(&self) -> u32 {
        for count in 0..TASKS_A_TURN {
            let Some(runnable) = self.data.borrow_mut().pop_front() else { return count };
            runnable.run();
        }
        TASKS_A_TURN
    }

    fn run_background(&self) -> u32 {
        if self.background.borrow().is_empty() {
            return 0;
        }
        self.running.set(Share::Background);
        let began = Instant::now();
        let mut count = 0;
        while let Some(runnable) = self.next_background() {
            runnable.run();
            count += 1;
            if began.elapsed() >= BACKGROUND_SLICE {
                break;
            }
        }
        self.running.set(Share::Data);
        count
    }

    fn next_background(&self) -> Option<Runnable> {
        self.background.borrow_mut().pop_front()
    }

    fn end_turn(&self, now: Instant) {
        if let Some(tasks) = self.turn_tasks.take() {
            turns::ended(now - self.slice_began.get(), tasks);
        }
    }

    fn has_work(&self) -> bool {
        !self.data.borrow().is_empty() || !self.background.borrow().is_empty() || !self.others.woken.is_empty()
    }

    /// Gives the kernel what was asked for, takes what completed, and fires timers. Sleeps when there is nothing to run.
    fn turn(&self) -> io::Result<()> {
        if self.has_work() {
            self.enter(None)?;
        } else {
            self.others.sleeping.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let span = if self.has_work() {
                None
            } else {
                let now = Instant::now();
                self.end_turn(now);
                Some(self.until_timer(now))
            };
            self.enter(span)?;
            self.others.sleeping.store(false, Ordering::SeqCst);
        }
        self.complete();
        self.fire_timers();
        Ok(())
    }

    /// `Some`: waits for a completion, at most for a span if there is one in it.
    fn enter(&self, wait: Option<Option<Duration>>) -> io::Result<()> {
        let mut ring = self.ring.borrow_mut();
        let result = match wait {
            // With background tasks left the kernel is entered all the same: without it, it tells nothing of what has
            // completed, and those may compute for long.
            None if ring.submission().is_empty()
                && !ring.submission().cq_overflow()
                && self.background.borrow().is_empty() =>
            {
                return Ok(());
            }
            None => ring.submit().map(|_| ()),
            Some(_) if !ring.completion().is_empty() => ring.submit().map(|_| ()),
            Some(None) => ring.submit_and_wait(1).map(|_| ()),
            Some(Some(span)) => {
                let span = types::Timespec::from(span);
                ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&span)).map(|_| ())
            }
        };
        match result {
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    fn complete(&self) {
        let mut others_rang = false;
        {
            let mut ring = self.ring.borrow_mut();
            let mut operations = self.operations.borrow_mut();
            let mut now = None;
            for entry in ring.completion() {
                match entry.user_data() {
                    NOBODY => {}
                    OTHERS => others_rang = true,
                    key => {
                        let operation = &mut operations[key as usize];
                        operation.pending -= 1;
                        let is_chain = operation.outcomes.capacity() > 1;
                        let at = is_chain.then(|| *now.get_or_insert_with(Stamp::now));
                        operation.outcomes.push(Outcome { result: entry.result(), at });
                        if operation.pending == 0 {
                            if operation.abandoned {
                                operations.remove(key as usize);
                            } else if let Some(waker) = operation.waker.take() {
                                waker.wake();
                            }
                        }
                    }
                }
            }
        }
        if others_rang {
            self.wait_for_others();
        }
    }

    /// Asks for the next ring of the eventfd.
    fn wait_for_others(&self) {
        let counter = self.counter.as_ptr().cast::<u8>();
        let event = types::Fd(self.others.event.as_raw_fd());
        self.push(&[opcode::Read::new(event, counter, 8).build().user_data(OTHERS)]);
    }

    fn push(&self, entries: &[squeue::Entry]) {
        let mut ring = self.ring.borrow_mut();
        let room = {
            let queue = ring.submission();
            queue.capacity() - queue.len()
        };
        if room < entries.len() {
            // What fails here is said at the next turn.
            let _ = ring.submit();
        }
        // SAFETY: what the entries refer to is kept by their operation until it completed, or lives as long as the ring.
        unsafe { ring.submission().push_multiple(entries) }.expect("the submission queue was just emptied");
    }

    fn until_timer(&self, now: Instant) -> Option<Duration> {
        let timers = self.timers.borrow();
        let ((when, _), _) = timers.first_key_value()?;
        Some(when.saturating_duration_since(now))
    }

    fn fire_timers(&self) {
        if self.timers.borrow().is_empty() {
            return;
        }
        let now = Instant::now();
        let due = {
            let mut timers = self.timers.borrow_mut();
            let later = timers.split_off(&(now, u64::MAX));
            std::mem::replace(&mut *timers, later)
        };
        for waker in due.into_values() {
            waker.wake();
        }
    }

    /// The end of the core: its tasks are dropped, and what the kernel still works at is leaked.
    fn end(&self) {
        loop {
            let data = self.data.take();
            let background = self.background.take();
            if data.is_empty() && background.is_empty() {
                break;
            }
            drop((data, background));
        }
        let operations = self.operations.take();
        if operations.iter().any(|(_, operation)| operation.pending > 0) {
            std::mem::forget(operations);
        }
    }
}

/// Whether there is more to do before this core would sleep.
pub(super) fn has_work() -> bool {
    CORE.with_borrow(|core| {
        core.as_ref().is_some_and(|core| core.has_work() || !core.ring.borrow_mut().completion().is_empty())
    })
}

/// The share of the task that runs.
pub(super) fn running() -> Share {
    CORE.with_borrow(|core| core.as_ref().map_or(Share::Data, |core| core.running.get()))
}

/// When this turn began to run tasks.
pub(super) fn turn_began() -> Option<Instant> {
    CORE.with_borrow(|core| core.as_ref().map(|core| core.slice_began.get()))
}

pub(super) async fn yield_if_needed() {
    let is_due = CORE.with_borrow(|core| core.as_ref().is_some_and(|core| core.slice_began.get().elapsed() > SLICE));
    if is_due {
        futures_lite::future::yield_now().await;
    }
}

/// A timer in the list, taken out when it is given up.
struct Timer {
    key: (Instant, u64),
    is_set: bool,
}

impl Drop for Timer {
    fn drop(&mut self) {
        if self.is_set {
            CORE.with_borrow(|core| {
                if let Some(core) = core {
                    core.timers.borrow_mut().remove(&self.key);
                }
            });
        }
    }
}

pub(super) async fn sleep(span: Duration) {
    let when = Instant::now() + span;
    let number = CORE.with_borrow(|core| {
        let core = core.as_ref().expect("this is called on a core");
        core.next_timer.set(core.next_timer.get() + 1);
        core.next_timer.get()
    });
    let mut timer = Timer { key: (when, number), is_set: false };
    poll_fn(|context| {
        if Instant::now() >= when {
            return Poll::Ready(());
        }
        timer.is_set = true;
        core().timers.borrow_mut().insert(timer.key, context.waker().clone());
        Poll::Pending
    })
    .await;
}

/// Operations that were given to the kernel, to be awaited.
pub(crate) struct Chain {
    key: usize,
    is_taken: bool,
}

pub(super) fn submit(entries: &[squeue::Entry], keep: Box<dyn Any>) -> Chain {
    let core = core();
    let operation = Operation {
        pending: entries.len() as u32,
        outcomes: Vec::with_capacity(entries.len()),
        waker: None,
        abandoned: false,
        _keep: keep,
    };
    let key = core.operations.borrow_mut().insert(operation);
    let entries: Vec<squeue::Entry> = entries.iter().map(|entry| entry.clone().user_data(key as u64)).collect();
    core.push(&entries);
    Chain { key, is_taken: false }
}

impl Future for Chain {
    type Output = Vec<Outcome>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Outcome>> {
        let core = core();
        let mut operations = core.operations.borrow_mut();
        let operation = &mut operations[self.key];
        if operation.pending > 0 {
            operation.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let operation = operations.remove(self.key);
        self.is_taken = true;
        Poll::Ready(operation.outcomes)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        CORE.with_borrow(|core| {
            let Some(core) = core else { return };
            let is_pending = {
                let mut operations = core.operations.borrow_mut();
                let Some(operation) = operations.get_mut(self.key) else { return };
                operation.abandoned = true;
                operation.waker = None;
                operation.pending > 0
            };
            if is_pending {
                let cancel = opcode::AsyncCancel::new(self.key as u64).build().user_data(NOBODY);
                core.push(&[cancel]);
            } else {
                core.operations.borrow_mut().remove(self.key);
            }
        });
    }
}

pub(super) async fn ready(descriptor: RawFd, readiness: Readiness) -> io::Result<()> {
    let events = match readiness {
        Readiness::Readable => libc::POLLIN | libc::POLLRDHUP,
        Readiness::Writable => libc::POLLOUT,
    };
    let poll = opcode::PollAdd::new(types::Fd(descriptor), events as u32).build();
    let outcomes = submit(&[poll], Box::new(())).await;
    match outcomes[0].result {
        error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
        _ => Ok(()),
    }
}
