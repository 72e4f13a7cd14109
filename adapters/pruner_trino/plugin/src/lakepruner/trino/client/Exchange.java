package lakepruner.trino.client;

import java.io.IOException;
import java.net.ConnectException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * Requests to the service over connections that stay open, without holding a thread while it waits.
 *
 * <p>An answer is there, whole, by the deadline of its request, or the request is cancelled. Within that time a request is sent
 * again where its connection was lost, and where the service, or what stands in front of it, has too much to do.
 */
public final class Exchange implements AutoCloseable {
    /** The first wait before a refused request is sent again; each further one is twice as long. */
    private static final long FIRST_WAIT_MILLIS = 50;

    private static final int TOO_MANY = 429;
    private static final int UNAVAILABLE = 503;

    private final Settings settings;
    private final HttpClient http;

    /** Ends its threads when they have nothing to do; it is never shut down, for scans wait for what it is given. */
    private final Executor threads = Executors.newCachedThreadPool(work -> {
        Thread thread = new Thread(work, "pruner");
        thread.setDaemon(true);
        return thread;
    });

    Exchange(Settings settings) {
        this.settings = settings;
        this.http = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .executor(threads)
                .connectTimeout(settings.timeout())
                .build();
    }

    /** Where to go on with what may take long, so that what the connection brings next does not wait for it. */
    Executor threads() {
        return threads;
    }

    /** The moment ({@link System#nanoTime}) by which an answer to what is asked now must be there. */
    long deadline() {
        return System.nanoTime() + settings.timeout().toNanos();
    }

    /** A request to a path of the service. */
    HttpRequest.Builder to(String path) {
        HttpRequest.Builder builder = HttpRequest.newBuilder(settings.url().resolve(settings.url().getPath() + path));
        settings.token().ifPresent(token -> builder.header("Authorization", "Bearer " + token));
        return builder;
    }

    /** The answer; a refusal that lasts until the deadline is one, too. */
    CompletableFuture<HttpResponse<byte[]>> send(
            HttpRequest.Builder request, HttpResponse.BodyHandler<byte[]> body, long deadline) {
        return sent(request, body, deadline, FIRST_WAIT_MILLIS);
    }

    private CompletableFuture<HttpResponse<byte[]>> sent(
            HttpRequest.Builder request, HttpResponse.BodyHandler<byte[]> body, long deadline, long waitMillis) {
        return once(request, body, deadline)
                // A connection that was kept open may turn out to be lost.
                .exceptionallyCompose(error ->
                        lostConnection(error) ? once(request, body, deadline) : CompletableFuture.failedFuture(error))
                .thenCompose(response -> {
                    OptionalLong wait = wait(response, waitMillis);
                    if (wait.isEmpty() || wait.getAsLong() >= leftMillis(deadline)) {
                        return CompletableFuture.completedFuture(response);
                    }
                    return CompletableFuture.runAsync(
                                    () -> {}, CompletableFuture.delayedExecutor(wait.getAsLong(), TimeUnit.MILLISECONDS))
                            .thenCompose(none -> sent(request, body, deadline, waitMillis * 2));
                });
    }

    /** How long to wait before the request is sent again; empty where that would not help. */
    private static OptionalLong wait(HttpResponse<?> response, long atLeast) {
        OptionalLong told = OptionalLong.empty();
        try {
            told = response.headers().firstValueAsLong("Retry-After");
        } catch (NumberFormatException date) {
            // RFC 9110 allows a date; no service that answers in time sends one.
        }
        boolean again = response.statusCode() == TOO_MANY || (response.statusCode() == UNAVAILABLE && told.isPresent());
        if (!again) {
            return OptionalLong.empty();
        }
        // Scans that were refused together must not come back together.
        long spread = ThreadLocalRandom.current().nextLong(atLeast);
        return OptionalLong.of(Math.max(atLeast, TimeUnit.SECONDS.toMillis(told.orElse(0))) + spread);
    }

    private static long leftMillis(long deadline) {
        return Math.max(1, TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime()));
    }

    /** The answer, whole and in time; the request's own time-out ends with the answer's first bytes. */
    private CompletableFuture<HttpResponse<byte[]>> once(
            HttpRequest.Builder request, HttpResponse.BodyHandler<byte[]> body, long deadline) {
        long left = leftMillis(deadline);
        HttpRequest timed = request.copy()
                .timeout(Duration.ofMillis(left))
                // RFC 7240, in whole seconds: how long the service may let it wait for its turn. Never less than there are.
                .setHeader("Prefer", "wait=" + (left + 999) / 1000)
                .build();
        CompletableFuture<HttpResponse<byte[]>> exchange = http.sendAsync(timed, body);
        return exchange.thenApply(Function.identity())
                .orTimeout(left, TimeUnit.MILLISECONDS)
                .whenComplete((answer, error) -> exchange.cancel(true));
    }

    private static boolean lostConnection(Throwable error) {
        Throwable cause = cause(error);
        return cause instanceof IOException
                && !(cause instanceof HttpTimeoutException)
                && !(cause instanceof ConnectException);
    }

    /** What went wrong, without what steps of futures have put around it. */
    public static Throwable cause(Throwable error) {
        return error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    }

    @Override
    public void close() {
        http.shutdownNow();
    }
}
