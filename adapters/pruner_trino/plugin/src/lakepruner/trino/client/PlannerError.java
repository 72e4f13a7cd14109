package lakepruner.trino.client;

import java.io.IOException;
import java.net.http.HttpTimeoutException;
import java.util.concurrent.TimeoutException;

/** The service gave no plan. */
public final class PlannerError extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String reason;

    PlannerError(String reason, String detail) {
        super(detail, null, false, false);
        this.reason = reason;
    }

    /** A reason of few words out of a small set, to count by. */
    public static String reason(Throwable error) {
        return switch (error) {
            case PlannerError refused -> refused.reason;
            case TimeoutException late -> "the service took too long";
            case HttpTimeoutException late -> "the service took too long";
            case IOException broken -> "the service cannot be reached";
            default -> "the service's answer cannot be used";
        };
    }
}
