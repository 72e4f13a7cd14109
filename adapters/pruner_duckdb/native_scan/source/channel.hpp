//! Questions of DuckDB's threads to the Python threads that answer them.
//!
//! A thread of DuckDB never waits for Python's lock: it leaves its question here, and waits for the answer, for the end
//! of the statement or for a deadline, whichever comes first.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pruner {

//! What became of a question: the fields of the answer, or the reason why there is none.
struct Answer {
	bool given = false;
	std::string reason;
	std::vector<std::string> fields;
};

//! Ask and wait.
//! @param question JSON
//! @param seconds how long to wait at most
//! @param interrupted tells whether the statement was interrupted; asked every few milliseconds
Answer Ask(const std::string &question, double seconds, const std::function<bool()> &interrupted);

//! How many seconds a plan may take.
double Patience();

//! Tell and do not wait.
void Tell(const std::string &message);

} // namespace pruner
