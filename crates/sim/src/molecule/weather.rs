//! The handles by which a test or a drill makes things go wrong, and the clock that it puts forward.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde_json::Value;

use super::faults::Exposure;
use super::ground::Ground;
use super::ids::WorkspaceId;
use super::options::Edition;
use super::push::second_row;
use super::wire::Call;
use super::{EventStream, Late, MoleculeFault, MoleculePlatform, Route, Weather, Workspace};

/// Rows that are acknowledged are deleted after this; on the older platform all are.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Rows are deleted after this in any case.
const HARD_RETENTION: Duration = Duration::from_secs(30 * 24 * 3_600);

impl MoleculePlatform {
    /// The next calls of this kind meet these faults, one each.
    pub fn script(&self, route: Route, faults: impl IntoIterator<Item = MoleculeFault>) {
        let faults: Vec<_> = faults.into_iter().collect();
        self.change(|ground| ground.faults.script(route, faults));
    }

    /// The next looks for a reply on a canvas meet these faults, one each.
    pub fn script_looks(&self, faults: impl IntoIterator<Item = MoleculeFault>) {
        let faults: Vec<_> = faults.into_iter().collect();
        self.change(|ground| ground.faults.script_looks(faults));
    }

    /// Every call of this kind meets this fault from now on, once its script is used up.
    pub fn stand(&self, route: Route, fault: MoleculeFault) {
        self.change(|ground| ground.faults.stand(route, fault));
    }

    /// What may go wrong by chance from now on.
    pub fn set_weather(&self, weather: Weather) {
        self.change(|ground| ground.faults.weather = weather);
    }

    /// Stores a message in a second row, as the platform does for a workspace that it takes for busy; false when there is
    /// no such message.
    pub fn repeat_message(&self, row: &str) -> bool {
        self.change(|ground| ground.repeat_message(row))
    }

    /// Takes the platform's database away or brings it back: wrong tokens on data calls, 500 on others.
    pub fn set_database(&self, up: bool) {
        self.change(|ground| ground.database = up);
    }

    /// When messages that are written from now on come into sight.
    pub fn set_late_messages(&self, late: Late) {
        self.change(|ground| ground.faults.late = late);
    }

    /// Lets the messages of a feed be seen that are held.
    pub fn release_rows(&self, workspace: &Workspace) {
        if let Some(id) = WorkspaceId::read(&workspace.id) {
            self.change(|ground| ground.release(id));
        }
    }

    /// Opens a gate for good: whoever waits there goes on, and whoever comes later does not wait.
    pub fn open_gate(&self, name: &str) {
        self.change(|ground| ground.open.insert(name.to_owned()));
    }

    /// When the echoes of bubbles that are written from now on come into sight.
    pub fn set_late_echoes(&self, late: Late) {
        self.change(|ground| ground.faults.late_echo = late);
    }

    /// What becomes of event streams that are opened from now on.
    pub fn set_event_stream(&self, stream: EventStream) {
        self.change(|ground| ground.stream = stream);
    }

    /// Ends every event stream that is open.
    pub fn end_event_streams(&self) {
        self.change(|ground| ground.listeners.clear());
    }

    /// Puts the platform's clock forward.
    pub fn advance(&self, span: Duration) {
        self.change(|ground| ground.clock.advance(span));
    }

    /// Deletes the oldest rows of a feed until `keep` are left, as a long absence does.
    pub fn prune(&self, workspace: &Workspace, keep: usize) {
        let Some(id) = WorkspaceId::read(&workspace.id) else {
            return;
        };
        self.change(|ground| {
            let have = ground.rows.iter().filter(|row| row.workspace == id).count();
            let mut gone = have.saturating_sub(keep);
            ground.rows.retain(|row| {
                let goes = row.workspace == id && gone > 0;
                if goes {
                    gone -= 1;
                }
                !goes
            });
        });
    }

    /// Deletes what the retention rules say: what is old and acknowledged, and what is too old for anybody.
    pub fn sweep_retention(&self) {
        self.change(|ground| {
            let now = ground.clock.now();
            let (old, too_old) = (now.before(RETENTION), now.before(HARD_RETENTION));
            let (edition, offices) = (ground.edition, &ground.offices);
            ground.rows.retain(|row| {
                let acked = offices.get(&row.workspace).map_or(0, |office| office.acked);
                let goes = match edition {
                    Edition::Seed => row.at < old,
                    Edition::New | Edition::August => {
                        row.at < too_old || (row.at < old && row.seq <= acked)
                    }
                };
                !goes
            });
        });
    }
}

impl Ground {
    /// The fault that a call meets; with a look at the feed, an older message may be stored again.
    pub(super) fn meet(&mut self, call: &Call) -> MoleculeFault {
        let exposure = exposure(call);
        match exposure {
            Exposure::Feed => self.repeat_by_chance(&call.place.id),
            Exposure::Reply(_) => self.reply_calls += 1,
            Exposure::Other if call.place.route == Route::Activity => self.reply_calls += 1,
            Exposure::Other | Exposure::Sheltered => {}
        }
        self.faults.next(call.place.route, exposure)
    }

    fn repeat_by_chance(&mut self, workspace: &str) {
        let permille = self.faults.weather.repeat;
        let Some(id) = WorkspaceId::read(workspace).filter(|_| self.faults.dice.chance(permille))
        else {
            return;
        };
        let messages = self.rows.iter().filter(|row| row.workspace == id);
        let messages: Vec<&str> = messages
            .filter(|row| row.is_message())
            .map(|row| row.id.as_str())
            .collect();
        let count = u64::try_from(messages.len()).unwrap_or(0);
        let chosen = usize::try_from(self.faults.dice.below(count)).unwrap_or(0);
        if let Some(row) = messages.get(chosen).map(|row| (*row).to_owned()) {
            self.repeat_message(&row);
        }
    }

    fn repeat_message(&mut self, row: &str) -> bool {
        let Some(known) = self.row(row).filter(|row| row.is_message()) else {
            return false;
        };
        let (workspace, again) = (known.workspace, second_row(&known.entry));
        self.log(workspace, again, Late::Never).is_some()
    }
}

fn exposure(call: &Call) -> Exposure {
    let hash = |place: &str| {
        let body = call.json().unwrap_or(Value::Null);
        // The text alone: ids differ from run to run.
        let mut hasher = DefaultHasher::new();
        body.pointer(place).map(Value::to_string).hash(&mut hasher);
        Exposure::Reply(hasher.finish())
    };
    match call.place.route {
        Route::Activity if call.asked("source").is_some() => Exposure::Other,
        Route::Activity => Exposure::Feed,
        Route::Ack => Exposure::Other,
        Route::Notify => hash("/message"),
        Route::A2a => hash("/params/message/parts"),
        _ => Exposure::Sheltered,
    }
}
