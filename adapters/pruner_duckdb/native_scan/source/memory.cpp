#include "memory.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <unordered_map>

namespace pruner {

namespace {

constexpr size_t kMostSeen = 4 << 20;
constexpr int kDeepest = 32;
constexpr size_t kAnswers = 1024;
constexpr size_t kAnswerBytes = 16 << 20;
//! Python forgets plans, too: after four times as many.
constexpr uint64_t kPlansAgo = 1024;

int64_t Nanoseconds(const timespec &time) {
	return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

//! Takes down what it sees.
class Watcher {
public:
	Watcher() {
		timespec time;
		clock_gettime(CLOCK_REALTIME, &time);
		began = Nanoseconds(time);
	}

	bool Take(char kind, const char *path) {
		switch (kind) {
		case 't':
			return Folder(AT_FDCWD, path, kDeepest);
		case 'f':
			return Folder(AT_FDCWD, path, 0) || Missing();
		case 'n': {
			struct stat found;
			seen.push_back(lstat(path, &found) == 0 ? '+' : '-');
			return true;
		}
		default: {
			struct stat found;
			if (stat(path, &found) != 0) {
				return false;
			}
			Add(found);
			Settle(found);
			return true;
		}
		}
	}

	std::string seen;
	bool settled = true;

private:
	//! Another write shows only after the clock of the file system has ticked.
	void Settle(const struct stat &found) {
		auto tick = found.st_ctim.tv_nsec ? 20000000 : 2000000000;
		settled = settled && Nanoseconds(found.st_ctim) + tick < began;
	}

	void Add(const struct stat &found) {
		int64_t values[] = {int64_t(found.st_dev),          int64_t(found.st_ino),         int64_t(found.st_mode),
		                    int64_t(found.st_size),         int64_t(found.st_nlink),       Nanoseconds(found.st_mtim),
		                    Nanoseconds(found.st_ctim)};
		seen.append(reinterpret_cast<const char *>(values), sizeof(values));
	}

	bool Missing() {
		seen.push_back('-');
		return errno == ENOENT;
	}

	bool Folder(int parent, const char *path, int depth) {
		auto descriptor = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		auto folder = descriptor < 0 ? nullptr : fdopendir(descriptor);
		if (!folder) {
			auto reason = errno;
			if (descriptor >= 0) {
				close(descriptor);
			}
			errno = reason;
			return false;
		}
		// What comes and goes again leaves its trace in the folder alone.
		struct stat found;
		auto whole = fstat(descriptor, &found) == 0 && Entries(folder, descriptor, depth);
		if (whole) {
			Add(found);
			Settle(found);
		}
		closedir(folder);
		errno = 0;
		return whole;
	}

	bool Entries(DIR *folder, int descriptor, int depth) {
		errno = 0;
		while (auto entry = readdir(folder)) {
			auto name = entry->d_name;
			if (!strcmp(name, ".") || !strcmp(name, "..")) {
				continue;
			}
			seen.append(name, strlen(name) + 1);
			// What is in hidden folders is no data.
			auto hidden = depth > 0 && (name[0] == '.' || (name[0] == '_' && !strchr(name, '=')));
			struct stat found;
			if (!hidden) {
				if (fstatat(descriptor, name, &found, 0) != 0 || seen.size() > kMostSeen) {
					return false;
				}
				Add(found);
				Settle(found);
				if (S_ISDIR(found.st_mode) && depth > 0 && !(depth > 1 && Folder(descriptor, name, depth - 1))) {
					return false;
				}
			}
			errno = 0;
		}
		seen.push_back('/');
		return errno == 0;
	}

	int64_t began;
};

struct Entry {
	std::vector<std::string> fields;
	std::chrono::steady_clock::time_point until;
	uint64_t plan;
};

size_t BytesOf(const std::string &question, const Entry &entry) {
	return 2 * question.size() + entry.fields[1].size();
}

struct Memory {
	const pid_t process = getpid();
	std::mutex mutex;
	std::map<std::pair<std::string, std::string>, KnownTable> tables;
	std::unordered_map<std::string, Entry> answers;
	std::deque<std::string> oldest;
	size_t bytes = 0;
	uint64_t newest_plan = 0;

	void ForgetOldest() {
		auto found = answers.find(oldest.front());
		if (found != answers.end()) {
			bytes -= BytesOf(found->first, found->second);
			answers.erase(found);
		}
		oldest.pop_front();
	}
};

//! Never destroyed, and left as it is in a child of the process, where its lock may be held for ever.
std::atomic<Memory *> memory {new Memory()};

Memory &Here() {
	auto found = memory.load();
	if (found->process != getpid()) {
		auto fresh = new Memory();
		found = memory.compare_exchange_strong(found, fresh) ? fresh : found;
	}
	return *found;
}

//! Whether all pruning is switched off; Python says why.
bool SwitchedOff() {
	auto value = std::getenv("PRUNER_DISABLED");
	return value && *value;
}

} // namespace

Look LookAt(const std::vector<std::string> &watched) {
	Watcher watcher;
	for (auto &place : watched) {
		if (!watcher.Take(place[0], place.c_str() + 1)) {
			return Look();
		}
	}
	Look look;
	look.seen = std::move(watcher.seen);
	look.settled = watcher.settled;
	return look;
}

KnownTable Recall(const std::string &database, const std::string &table) {
	auto &here = Here();
	std::lock_guard<std::mutex> lock(here.mutex);
	auto found = here.tables.find({database, table});
	return found == here.tables.end() ? KnownTable() : found->second;
}

void Remember(const std::string &database, const std::string &table, KnownTable known) {
	auto &here = Here();
	std::lock_guard<std::mutex> lock(here.mutex);
	here.tables[{database, table}] = std::move(known);
}

void Forget(const std::string &database) {
	auto &here = Here();
	std::lock_guard<std::mutex> lock(here.mutex);
	for (auto entry = here.tables.begin(); entry != here.tables.end();) {
		entry = entry->first.first == database ? here.tables.erase(entry) : std::next(entry);
	}
}

bool RecallAnswer(const std::string &question, Answer &answer) {
	auto &here = Here();
	if (SwitchedOff()) {
		return false;
	}
	std::lock_guard<std::mutex> lock(here.mutex);
	auto found = here.answers.find(question);
	if (found == here.answers.end() || found->second.plan + kPlansAgo < here.newest_plan ||
	    found->second.until < std::chrono::steady_clock::now()) {
		return false;
	}
	answer.given = true;
	answer.fields = found->second.fields;
	return true;
}

void RememberAnswer(const std::string &question, const Answer &answer) {
	Entry entry;
	entry.fields = answer.fields;
	entry.plan = std::stoull(answer.fields[0]);
	auto seconds = std::chrono::duration<double>(std::stod(answer.fields[2]));
	entry.until = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::milliseconds>(seconds);
	auto &here = Here();
	std::lock_guard<std::mutex> lock(here.mutex);
	here.newest_plan = std::max(here.newest_plan, entry.plan);
	if (seconds.count() <= 0 || SwitchedOff()) {
		return;
	}
	auto found = here.answers.find(question);
	if (found != here.answers.end()) {
		here.bytes -= BytesOf(question, found->second);
		here.answers.erase(found);
	} else {
		here.oldest.push_back(question);
	}
	here.bytes += BytesOf(question, entry);
	here.answers.emplace(question, std::move(entry));
	while (!here.oldest.empty() && (here.oldest.size() > kAnswers || here.bytes > kAnswerBytes)) {
		here.ForgetOldest();
	}
}

} // namespace pruner

//! Let every question be a new one: for measurements.
extern "C" __attribute__((visibility("default"))) void pruner_forget() {
	auto &here = pruner::Here();
	std::lock_guard<std::mutex> lock(here.mutex);
	here.answers.clear();
	here.oldest.clear();
	here.bytes = 0;
}
