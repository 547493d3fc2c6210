//! A scenario, played on one pair of servers.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crate::connection::{ANSWER_WITHIN, Connection};
use crate::frame::{FLAG_ANSWER, FLAG_ONE_WAY, Frame, bad};
use crate::now_ms;

use super::facts::{self, Facts};
use super::scenario::{Request, Step};

/// Where the servers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub namesrv: String,
    pub broker: String,
}

/// What each compared step said, in the order of the script, with its request code.
pub type Played = Vec<(String, i32, Facts)>;

/// Plays the steps one after the other, and shows each answer as it is to `look`.
///
/// # Errors
/// The step that a server did not answer, or that names what is not there.
pub fn play(steps: &[Step], addresses: &Addresses, look: &mut dyn FnMut(&str, &Facts)) -> Result<Played, String> {
    let mut player = Player { addresses, links: BTreeMap::new(), played: Vec::new(), look };
    for step in steps {
        player.step(step).map_err(|error| format!("{}: {error} in {step:?}", addresses.broker))?;
    }
    Ok(player.played)
}

struct Player<'a> {
    addresses: &'a Addresses,
    links: BTreeMap<String, Link>,
    played: Played,
    look: &'a mut dyn FnMut(&str, &Facts),
}

/// A connection with what arrived on it and was not asked for yet.
struct Link {
    connection: Connection,
    answers: VecDeque<Frame>,
    requests: VecDeque<Frame>,
    /// What was posted and not collected: its opaque and its code.
    posted: Option<(i32, i32)>,
}

impl Player<'_> {
    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Wait { ms } => thread::sleep(Duration::from_millis(*ms)),
            Step::Call { name, request } => {
                let answer = self.call(request)?;
                self.keep(name, request.code, &answer);
            }
            Step::Post { name: _, request } => {
                let frame = self.frame(request)?;
                let link = self.link(&request.link)?;
                link.posted = Some((link.connection.send(&frame)?, request.code));
            }
            Step::Collect { name, link } => {
                let link = self.link(link)?;
                let (opaque, code) = link.posted.take().ok_or_else(|| bad("nothing was posted".to_owned()))?;
                let answer = link.answer_to(opaque)?;
                self.keep(name, code, &answer);
            }
            Step::Await { name, request } => {
                let frame = self.frame(request)?;
                let link = self.link(&request.link)?;
                let asked = link.request(request.code)?;
                if asked.flag & FLAG_ONE_WAY == 0 {
                    let mut answer = frame.with_opaque(asked.opaque);
                    (answer.code, answer.flag) = (0, FLAG_ANSWER);
                    link.connection.send_bytes(&answer.encode())?;
                }
                self.keep(name, request.code, &asked);
            }
            Step::Until { field, value, request } => {
                let deadline = Instant::now() + ANSWER_WITHIN;
                loop {
                    let answer = self.call(request)?;
                    if facts::of(&answer).get(field) == Some(value) {
                        break;
                    }
                    if Instant::now() > deadline {
                        return Err(bad(format!("{field} does not become {value}: {answer:?}")));
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, name: &str, code: i32, frame: &Frame) {
        let facts = facts::of(frame);
        (self.look)(name, &facts);
        self.played.push((name.to_owned(), code, facts));
    }

    fn call(&mut self, request: &Request) -> io::Result<Frame> {
        let frame = self.frame(request)?;
        let link = self.link(&request.link)?;
        let opaque = link.connection.send(&frame)?;
        link.answer_to(opaque)
    }

    fn link(&mut self, name: &str) -> io::Result<&mut Link> {
        if !self.links.contains_key(name) {
            let address = if name.starts_with("ns") { &self.addresses.namesrv } else { &self.addresses.broker };
            let connection = Connection::open(address)?;
            let link = Link { connection, answers: VecDeque::new(), requests: VecDeque::new(), posted: None };
            self.links.insert(name.to_owned(), link);
        }
        Ok(self.links.get_mut(name).expect("it was put there"))
    }

    fn frame(&self, request: &Request) -> io::Result<Frame> {
        let mut frame = Frame::request(request.code);
        for (key, value) in &request.fields {
            frame = frame.field(key, self.resolve(value)?);
        }
        let body = match std::str::from_utf8(&request.body) {
            Ok(text) => self.resolve(text)?.into_bytes(),
            Err(_) => request.body.clone(),
        };
        Ok(frame.body(body))
    }

    /// A text with its variables replaced.
    fn resolve(&self, text: &str) -> io::Result<String> {
        let mut resolved = String::new();
        let mut rest = text;
        while let Some((front, back)) = rest.split_once("$(") {
            let (variable, behind) =
                back.split_once(')').ok_or_else(|| bad(format!("a variable does not end: {text}")))?;
            resolved.push_str(front);
            resolved.push_str(&self.variable(variable)?);
            rest = behind;
        }
        Ok(resolved + rest)
    }

    fn variable(&self, variable: &str) -> io::Result<String> {
        match variable {
            "broker" => return Ok(self.addresses.broker.clone()),
            "namesrv" => return Ok(self.addresses.namesrv.clone()),
            "now" => return Ok(now_ms().to_string()),
            _ => {}
        }
        if let Some(later) = variable.strip_prefix("now+").and_then(|ms| ms.parse::<u64>().ok()) {
            return Ok((now_ms() + later).to_string());
        }
        let fact = variable.split_once('.').and_then(|(step, fact)| {
            let (_, _, facts) = self.played.iter().find(|(name, _, _)| name == step)?;
            facts.get(fact)
        });
        fact.cloned().ok_or_else(|| bad(format!("there is no {variable}")))
    }
}

impl Link {
    fn answer_to(&mut self, opaque: i32) -> io::Result<Frame> {
        loop {
            if let Some(at) = self.answers.iter().position(|frame| frame.opaque == opaque) {
                return Ok(self.answers.remove(at).expect("it was found there"));
            }
            self.receive()?;
        }
    }

    fn request(&mut self, code: i32) -> io::Result<Frame> {
        loop {
            if let Some(at) = self.requests.iter().position(|frame| frame.code == code) {
                return Ok(self.requests.remove(at).expect("it was found there"));
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let frame = self.connection.receive()?;
        if frame.is_answer() {
            self.answers.push_back(frame);
        } else {
            self.requests.push_back(frame);
        }
        Ok(())
    }
}
