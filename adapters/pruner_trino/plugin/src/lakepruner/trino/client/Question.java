package lakepruner.trino.client;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Optional;

/**
 * What a scan asks the service.
 *
 * @param names by which the service may know the table, the likeliest first
 * @param asOf the state of the table that is scanned; empty where it is the newest
 * @param session whose rules hold
 * @param content the predicate, in Trino's form
 */
public record Question(List<String> names, Optional<String> asOf, ObjectNode session, ObjectNode content) {
    String table() {
        return names.getFirst();
    }
}
