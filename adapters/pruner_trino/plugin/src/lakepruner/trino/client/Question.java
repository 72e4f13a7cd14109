package lakepruner.trino.client;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;

/**
 * What a scan asks the service.
 *
 * @param names by which the service may know the table, the likeliest first
 * @param session whose rules hold
 * @param content the predicate, in Trino's form
 */
public record Question(List<String> names, ObjectNode session, ObjectNode content) {
    String table() {
        return names.getFirst();
    }
}
