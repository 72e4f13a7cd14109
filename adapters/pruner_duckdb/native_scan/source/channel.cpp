#include "channel.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unistd.h>

namespace pruner {

namespace {

struct Question {
	uint64_t number;
	std::string text;
	bool answered = false;
	std::string answer;
};

//! Messages are taken under this number.
constexpr uint64_t kMessages = 1;
//! They need not be known at once: a thread that is woken for each costs more than all else in a short statement.
constexpr auto kListen = std::chrono::milliseconds(100);

struct Channel {
	const pid_t process = getpid();
	std::mutex mutex;
	std::condition_variable asked;
	std::condition_variable answered;
	std::deque<std::shared_ptr<Question>> waiting;
	//! Messages for which nobody waits, as the items of a list in JSON; they go to one thread at a time.
	std::string told;
	bool telling = false;
	//! Whether a thread waits to take them, and how many wait until they are known.
	bool looking = false;
	int hurry = 0;
	std::unordered_map<uint64_t, std::shared_ptr<Question>> taken;
	uint64_t last = kMessages;
	int idle = 0;
	bool open = false;
	std::atomic<double> patience {0};

	//! With the mutex held.
	std::shared_ptr<Question> Put(const std::string &text) {
		auto question = std::make_shared<Question>();
		question->number = ++last;
		question->text = text;
		waiting.push_back(question);
		asked.notify_one();
		return question;
	}

	//! With the mutex held: wait for a question, or until messages have waited for a while; null when it was closed.
	std::shared_ptr<Question> Next(std::unique_lock<std::mutex> &lock) {
		for (bool due = false; open;) {
			if (!waiting.empty()) {
				auto question = waiting.front();
				waiting.pop_front();
				return question;
			}
			if (!Untold() || (looking && hurry == 0)) {
				asked.wait(lock);
			} else if (due || hurry > 0) {
				return Messages();
			} else {
				looking = true;
				due = asked.wait_for(lock, kListen) == std::cv_status::timeout;
				looking = false;
			}
		}
		return nullptr;
	}

private:
	bool Untold() const {
		return !told.empty() && !telling;
	}

	std::shared_ptr<Question> Messages() {
		auto messages = std::make_shared<Question>();
		messages->number = kMessages;
		messages->text = "{\"kind\":\"told\",\"messages\":[" + told + "]}";
		told.clear();
		telling = true;
		return messages;
	}
};

//! Never destroyed: threads may wait in it when the process ends.
Channel *channel = new Channel();

std::vector<std::string> Fields(const std::string &text) {
	std::vector<std::string> fields;
	size_t begin = 0;
	while (begin <= text.size()) {
		auto end = text.find('\0', begin);
		end = end == std::string::npos ? text.size() : end;
		fields.push_back(text.substr(begin, end - begin));
		begin = end + 1;
	}
	return fields;
}

Answer Nothing(const char *reason) {
	Answer answer;
	answer.reason = reason;
	return answer;
}

//! Interrupts are looked for so often; an answer wakes its thread at once.
constexpr auto kLook = std::chrono::milliseconds(20);

} // namespace

Answer Ask(const std::string &text, double seconds, const std::function<bool()> &interrupted) {
	auto &here = *channel;
	if (here.process != getpid()) {
		return Nothing("the process was forked after the connection was made");
	}
	auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
	std::unique_lock<std::mutex> lock(here.mutex);
	if (!here.open) {
		return Nothing("nobody plans in this process any more");
	}
	auto question = here.Put(text);
	while (!here.answered.wait_for(lock, kLook, [&] { return question->answered || !here.open; })) {
		// Whoever takes the question later answers into the void.
		if (interrupted()) {
			return Nothing("the statement was interrupted");
		}
		if (std::chrono::steady_clock::now() >= deadline) {
			return Nothing("planning took too long");
		}
	}
	if (!question->answered) {
		return Nothing("nobody plans in this process any more");
	}
	auto answer = std::move(question->answer);
	lock.unlock();
	Answer result;
	result.fields = Fields(answer);
	result.given = result.fields[0] == "ok";
	if (!result.given) {
		result.reason = result.fields.size() > 1 ? result.fields[1] : "the answer was empty";
	}
	result.fields.erase(result.fields.begin());
	return result;
}

double Patience() {
	return channel->patience;
}

void Tell(const std::string &text) {
	auto &here = *channel;
	if (here.process != getpid()) {
		return;
	}
	std::lock_guard<std::mutex> lock(here.mutex);
	if (here.open) {
		if (here.told.empty()) {
			here.asked.notify_one();
		}
		here.told += here.told.empty() ? text : "," + text;
	}
}

} // namespace pruner

using pruner::channel;

#define PRUNER_EXPORT extern "C" __attribute__((visibility("default")))

//! Begin to take questions. After a fork the child has a channel of its own.
//! @param patience how many seconds a plan may take
PRUNER_EXPORT void pruner_open(double patience) {
	if (channel->process != getpid()) {
		channel = new pruner::Channel();
	}
	std::lock_guard<std::mutex> lock(channel->mutex);
	channel->open = true;
	channel->patience = patience;
}

//! Whoever waits goes on without an answer.
PRUNER_EXPORT void pruner_close() {
	if (channel->process != getpid()) {
		return;
	}
	std::lock_guard<std::mutex> lock(channel->mutex);
	channel->open = false;
	channel->asked.notify_all();
	channel->answered.notify_all();
}

//! Wait for a question.
//! @param text takes the question, which lasts until it is answered
//! @param idle takes how many other threads wait for questions
//! @return the question's number, 0 when the channel was closed
PRUNER_EXPORT uint64_t pruner_take(const char **text, uint64_t *length, int32_t *idle) {
	auto &here = *channel;
	if (here.process != getpid()) {
		return 0;
	}
	std::unique_lock<std::mutex> lock(here.mutex);
	here.idle++;
	auto question = here.Next(lock);
	here.idle--;
	if (!question) {
		return 0;
	}
	here.taken[question->number] = question;
	*text = question->text.data();
	*length = question->text.size();
	*idle = here.idle;
	return question->number;
}

//! Answer a question: fields between NUL characters, the first of them "ok" or "error".
PRUNER_EXPORT void pruner_answer(uint64_t number, const char *answer, uint64_t length) {
	auto &here = *channel;
	if (here.process != getpid()) {
		return;
	}
	std::lock_guard<std::mutex> lock(here.mutex);
	auto found = here.taken.find(number);
	if (found == here.taken.end()) {
		return;
	}
	auto question = found->second;
	here.taken.erase(found);
	here.telling = here.telling && number != pruner::kMessages;
	question->answered = true;
	question->answer.assign(answer, length);
	here.answered.notify_all();
}

//! Wait until nothing is left to be answered, for some seconds at most.
PRUNER_EXPORT void pruner_settle(double seconds) {
	auto &here = *channel;
	if (here.process == getpid()) {
		std::unique_lock<std::mutex> lock(here.mutex);
		here.hurry++;
		here.asked.notify_all();
		here.answered.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
			return !here.open || (here.waiting.empty() && here.taken.empty() && here.told.empty());
		});
		here.hurry--;
	}
}
