package lakepruner.trino.client;

import java.io.IOException;
import java.net.http.HttpTimeoutException;
import java.util.concurrent.TimeoutException;

/** The service gave no plan. */
public final class PlannerError extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String reason;
    private final int status;

    PlannerError(String reason, String detail) {
        this(reason, detail, 0);
    }

    private PlannerError(String reason, String detail, int status) {
        super(detail, null, false, false);
        this.reason = reason;
        this.status = status;
    }

    static PlannerError refused(int status, String sentence) {
        return new PlannerError("the service answers " + status, sentence, status);
    }

    /** Whether the service does not know the table or the route. */
    boolean isUnknown() {
        return status == 404 || status == 405;
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
