/* gqbench: a C client that produces, consumes and times messages, and compares every byte.
 *
 *   gqbench create  -b HOST:PORT -t TOPIC -p PARTITIONS [-T topic.setting=value]...
 *   gqbench delete  -b HOST:PORT -t TOPIC
 *   gqbench produce -b HOST:PORT -t TOPIC -p PARTITIONS -n MESSAGES -s SIZE [-X setting=value]...
 *   gqbench consume -b HOST:PORT -t TOPIC -p PARTITIONS -n MESSAGES -s SIZE [-X setting=value]...
 *   gqbench latency -b HOST:PORT -t TOPIC -p PARTITIONS -n MESSAGES -s SIZE -r RATE -w WARM_UP
 *   gqbench peek    -b HOST:PORT -t TOPIC -p PARTITIONS -s SIZE
 *
 * A message is text, so that JSON can carry it too:
 *
 *   16 hex digits     16 hex digits     SIZE - 32 characters
 *   number in its     time it was due,  a slice of a fixed pool; which one follows from
 *   partition         ns, or 0          partition and number
 *
 * So a reader knows every byte that must come, and a lost, doubled, moved or changed message is
 * an error.  Message i of a run goes to partition (i / CHUNK) % PARTITIONS.
 *
 * Each command prints one line of JSON.  Exit codes: 0, 1 wrong contents, 2 usage, 3 failed or
 * took longer than -l SECONDS.  produce with -k counts acknowledgements one by one and prints
 * them when it gets SIGTERM: for brokers that are about to be killed.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 500
#define POOL_BYTES (1 << 20)
#define HEAD_BYTES 32
#define FETCHED_MAX 10000
#define PARTITIONS_MAX 16384
#define PROPERTIES_MAX 64

struct options {
	const char *command, *brokers, *topic;
	int partitions, size, limit_seconds, counts_acks;
	int64_t messages, rate, warm_up;
	const char *client_properties[PROPERTIES_MAX], *topic_properties[PROPERTIES_MAX];
	int client_count, topic_count;
};

static struct options options = {.partitions = 1, .size = 100, .limit_seconds = 600};
static char pool[POOL_BYTES];
static volatile sig_atomic_t stopped;
static int64_t failures, acked; /* written by the polling thread only */
static int64_t *acked_in;       /* the same, by partition; with -k */
static char first_failure[256];

static void fail(int code, const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "gqbench: ");
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n");
	va_end(arguments);
	exit(code);
}

static int64_t now_ns(void) {
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* --- contents -------------------------------------------------------------------------------- */

static const char DIGITS[] = "0123456789abcdef";
static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void make_pool(void) {
	uint32_t state = 1;
	for (int i = 0; i < POOL_BYTES; i++) {
		state = state * 1103515245u + 12345u;
		pool[i] = ALPHABET[(state >> 16) & 63];
	}
}

static const char *filler(int partition, int64_t number) {
	uint64_t mixed = ((uint64_t)number + (uint64_t)partition * 104729u) * 7919u;
	return pool + mixed % (uint64_t)(POOL_BYTES - options.size);
}

static void put_hex(char *out, uint64_t value) {
	for (int i = 15; i >= 0; i--, value >>= 4)
		out[i] = DIGITS[value & 15];
}

static uint64_t get_hex(const char *in) {
	uint64_t value = 0;
	for (int i = 0; i < 16; i++)
		value = value << 4 | (uint64_t)(in[i] <= '9' ? in[i] - '0' : in[i] - 'a' + 10);
	return value;
}

static void make_message(char *out, int partition, int64_t number, int64_t due) {
	put_hex(out, (uint64_t)number);
	put_hex(out + 16, (uint64_t)due);
	memcpy(out + HEAD_BYTES, filler(partition, number), (size_t)(options.size - HEAD_BYTES));
}

/* The time that the message was due; ends the program when a byte is not what it must be. */
static int64_t check_message(const rd_kafka_message_t *message, int64_t number) {
	const char *data = message->payload;
	char want[17] = "";
	if ((int)message->len != options.size)
		fail(1, "partition %d offset %lld: %zu bytes, not %d", message->partition,
		     (long long)message->offset, message->len, options.size);
	put_hex(want, (uint64_t)number);
	if (memcmp(data, want, 16) != 0)
		fail(1, "partition %d offset %lld: message %.16s, expected %s", message->partition,
		     (long long)message->offset, data, want);
	if (memcmp(data + HEAD_BYTES, filler(message->partition, number),
	           (size_t)(options.size - HEAD_BYTES)) != 0)
		fail(1, "partition %d offset %lld: contents differ", message->partition,
		     (long long)message->offset);
	return (int64_t)get_hex(data + 16);
}

/* --- handles --------------------------------------------------------------------------------- */

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
	char error[256];
	if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK)
		fail(2, "%s=%s: %s", name, value, error);
}

static void split(const char *property, char *name, size_t size, const char **value) {
	const char *sign = strchr(property, '=');
	if (!sign || (size_t)(sign - property) >= size)
		fail(2, "%s: write NAME=VALUE", property);
	memcpy(name, property, (size_t)(sign - property));
	name[sign - property] = 0;
	*value = sign + 1;
}

static rd_kafka_conf_t *basic_conf(void) {
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	set(conf, "bootstrap.servers", options.brokers);
	set(conf, "log_level", "3");
	set(conf, "broker.address.family", "v4");
	return conf;
}

static rd_kafka_t *open_client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
	char error[256];
	rd_kafka_t *client = rd_kafka_new(type, conf, error, sizeof error);
	if (!client)
		fail(3, "%s", error);
	return client;
}

static rd_kafka_conf_t *with_properties(rd_kafka_conf_t *conf) {
	char name[128];
	const char *value;
	for (int i = 0; i < options.client_count; i++) {
		split(options.client_properties[i], name, sizeof name, &value);
		set(conf, name, value);
	}
	return conf;
}

typedef void report_callback(rd_kafka_t *, const rd_kafka_message_t *, void *);

static rd_kafka_t *open_producer(report_callback *report, int reports_all) {
	rd_kafka_conf_t *conf = with_properties(basic_conf());
	rd_kafka_conf_set_dr_msg_cb(conf, report);
	set(conf, "delivery.report.only.error", reports_all ? "false" : "true");
	return open_client(RD_KAFKA_PRODUCER, conf);
}

static rd_kafka_t *open_consumer(void) {
	return open_client(RD_KAFKA_CONSUMER, with_properties(basic_conf()));
}

static void note_failure(rd_kafka_resp_err_t error) {
	if (failures++ == 0)
		snprintf(first_failure, sizeof first_failure, "%s", rd_kafka_err2str(error));
}

static void print_acked(const int64_t *counts) {
	int64_t total = 0;
	printf("{\"messages_in\": [");
	for (int i = 0; i < options.partitions; total += counts[i++])
		printf("%s%lld", i ? ", " : "", (long long)counts[i]);
	printf("], \"messages\": %lld}\n", (long long)total);
	fflush(stdout);
}

/* With -k it has the last word, since the main thread may be waiting for a broker that is gone. */
static void *poll_forever(void *client) {
	while (!stopped)
		rd_kafka_poll(client, 50);
	if (options.counts_acks) {
		rd_kafka_poll(client, 0);
		print_acked(acked_in);
		_exit(0);
	}
	return NULL;
}

static pthread_t start_thread(void *(*body)(void *), void *argument) {
	pthread_t thread;
	if (pthread_create(&thread, NULL, body, argument) != 0)
		fail(3, "no thread");
	return thread;
}

/* --- what it costs --------------------------------------------------------------------------- */

struct cost {
	int64_t at;
	double self, user, system;
};

static double seconds_of(struct timeval time) {
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static struct cost cost_now(void) {
	struct rusage whole, self;
	getrusage(RUSAGE_SELF, &whole);
	getrusage(RUSAGE_THREAD, &self);
	return (struct cost){now_ns(), seconds_of(self.ru_utime) + seconds_of(self.ru_stime),
	                     seconds_of(whole.ru_utime), seconds_of(whole.ru_stime)};
}

static void print_cost(struct cost from, struct cost to, int64_t messages) {
	printf("{\"messages\": %lld, \"seconds\": %.6f, \"cpu_user\": %.3f, \"cpu_system\": %.3f, "
	       "\"cpu_main_thread\": %.3f}\n",
	       (long long)messages, (double)(to.at - from.at) / 1e9, to.user - from.user,
	       to.system - from.system, to.self - from.self);
}

/* --- produce --------------------------------------------------------------------------------- */

static void delivered(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
	(void)client, (void)opaque;
	if (message->err)
		note_failure(message->err);
	else if (acked_in)
		acked_in[message->partition]++;
}

static void on_signal(int signal) {
	(void)signal;
	stopped = 1;
}

/* rd_kafka_produce_batch() holds the topic's lock while it blocks, and librdkafka needs that lock when
 * a leader has moved: then neither goes on.  So there is room before it is called. */
static void wait_for_room(rd_kafka_t *client, int count) {
	static int limit;
	if (!limit) {
		char value[32];
		size_t size = sizeof value;
		if (rd_kafka_conf_get(rd_kafka_conf(client), "queue.buffering.max.messages", value, &size) !=
		    RD_KAFKA_CONF_OK)
			fail(3, "queue.buffering.max.messages is unknown");
		limit = atoi(value);
	}
	while (rd_kafka_outq_len(client) + count > limit && rd_kafka_outq_len(client) && !stopped)
		usleep(500);
}

static void send_chunk(rd_kafka_topic_t *topic, int partition, int64_t first, int count) {
	static rd_kafka_message_t messages[CHUNK];
	static char *scratch;
	if (!scratch)
		scratch = malloc((size_t)CHUNK * (size_t)options.size);
	for (int i = 0; i < count; i++) {
		char *payload = scratch + (size_t)i * (size_t)options.size;
		make_message(payload, partition, first + i, 0);
		memset(&messages[i], 0, sizeof messages[i]);
		messages[i].payload = payload;
		messages[i].len = (size_t)options.size;
	}
	int sent = rd_kafka_produce_batch(topic, partition, RD_KAFKA_MSG_F_COPY | RD_KAFKA_MSG_F_BLOCK,
	                                  messages, count);
	if (sent != count && !stopped)
		for (int i = 0; i < count; i++)
			if (messages[i].err)
				fail(3, "produce: %s", rd_kafka_err2str(messages[i].err));
}

/* A topic that was just created may have no leaders yet; a retry for that would change the order. */
static void wait_for_leaders(rd_kafka_t *client, rd_kafka_topic_t *topic) {
	for (int attempt = 0; attempt < 100; attempt++) {
		const struct rd_kafka_metadata *metadata;
		int led = 0;
		if (rd_kafka_metadata(client, 0, topic, &metadata, 10000) == RD_KAFKA_RESP_ERR_NO_ERROR) {
			const struct rd_kafka_metadata_topic *found = metadata->topics;
			for (int i = 0; metadata->topic_cnt && i < found->partition_cnt; i++)
				led += !found->partitions[i].err && found->partitions[i].leader >= 0;
			rd_kafka_metadata_destroy(metadata);
		}
		if (led >= options.partitions)
			return;
		usleep(100000);
	}
	fail(3, "%s: not every partition has a leader", options.topic);
}

static void produce(void) {
	rd_kafka_t *client = open_producer(delivered, options.counts_acks);
	rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
	wait_for_leaders(client, topic);
	if (options.counts_acks)
		acked_in = calloc((size_t)options.partitions, sizeof *acked_in);
	int64_t *next = calloc((size_t)options.partitions, sizeof *next);
	pthread_t poller = start_thread(poll_forever, client);
	struct cost from = cost_now();
	int64_t sent = 0;
	for (int partition = 0; sent < options.messages && !stopped;) {
		int64_t left = options.messages - sent;
		int count = left < CHUNK ? (int)left : CHUNK;
		wait_for_room(client, count);
		send_chunk(topic, partition, next[partition], count);
		next[partition] += count;
		sent += count;
		partition = (partition + 1) % options.partitions;
	}
	while (rd_kafka_outq_len(client) > 0 && !stopped)
		rd_kafka_flush(client, 100);
	struct cost to = cost_now();
	if (options.counts_acks) {
		stopped = 1;
		pthread_join(poller, NULL);
	}
	if (failures)
		fail(3, "%lld messages not delivered: %s", (long long)failures, first_failure);
	print_cost(from, to, sent);
}

/* One message to the end of each partition: what costs a partition when it is used at all. */
static void touch(void) {
	rd_kafka_t *client = open_producer(delivered, 0);
	rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
	char *payload = malloc((size_t)options.size);
	start_thread(poll_forever, client);
	struct cost from = cost_now();
	for (int partition = 0; partition < options.partitions; partition++) {
		make_message(payload, partition, 0, 0);
		if (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY | RD_KAFKA_MSG_F_BLOCK, payload,
		                     (size_t)options.size, NULL, 0, NULL) != 0)
			fail(3, "produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
	}
	while (rd_kafka_outq_len(client) > 0)
		rd_kafka_flush(client, 100);
	if (failures)
		fail(3, "%lld messages not delivered: %s", (long long)failures, first_failure);
	print_cost(from, cost_now(), options.partitions);
}

/* --- consume --------------------------------------------------------------------------------- */

/* Asks again for a while: a broker that just started may answer before it leads. */
static int64_t end_of(rd_kafka_t *client, int partition, int64_t *start) {
	int64_t low = 0, high = 0;
	for (int attempt = 0;; attempt++) {
		rd_kafka_resp_err_t error =
		    rd_kafka_query_watermark_offsets(client, options.topic, partition, &low, &high, 30000);
		if (!error)
			break;
		if (attempt == 1000)
			fail(3, "partition %d: %s", partition, rd_kafka_err2str(error));
		usleep(20000);
	}
	if (start)
		*start = low;
	return high;
}

/* What was acked may take a moment to be visible: with acks=1, until the broker's next sync. */
static int64_t wait_for_all(rd_kafka_t *client, int64_t *ends) {
	for (int attempt = 0;; attempt++) {
		int64_t visible = 0;
		for (int i = 0; i < options.partitions; i++)
			visible += ends[i] = end_of(client, i, NULL);
		if (visible >= options.messages || attempt == 100)
			return visible;
		usleep(100000);
	}
}

static void consume(void) {
	rd_kafka_t *client = open_consumer();
	rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
	rd_kafka_message_t **batch = calloc(FETCHED_MAX, sizeof *batch);
	int64_t *next = calloc((size_t)options.partitions, sizeof *next);
	int64_t *ends = calloc((size_t)options.partitions, sizeof *ends);
	int64_t wanted = wait_for_all(client, ends);
	if (options.messages && wanted != options.messages)
		fail(1, "%lld messages are there, %lld expected", (long long)wanted,
		     (long long)options.messages);
	struct cost from = cost_now();
	for (int i = 0; i < options.partitions; i++)
		if (ends[i] > 0 && rd_kafka_consume_start_queue(topic, i, 0, queue) != 0)
			fail(3, "consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
	for (int64_t seen = 0; seen < wanted;) {
		ssize_t count = rd_kafka_consume_batch_queue(queue, 1000, batch, FETCHED_MAX);
		for (ssize_t i = 0; i < count; i++) {
			rd_kafka_message_t *message = batch[i];
			if (message->err)
				fail(3, "consume: %s", rd_kafka_message_errstr(message));
			check_message(message, next[message->partition]++);
			rd_kafka_message_destroy(message);
		}
		seen += count > 0 ? count : 0;
	}
	struct cost to = cost_now();
	for (int i = 0; i < options.partitions; i++)
		if (next[i] != ends[i])
			fail(1, "partition %d: %lld messages, %lld expected", i, (long long)next[i],
			     (long long)ends[i]);
	if (options.counts_acks) {
		print_acked(next);
		_exit(0);
	}
	print_cost(from, to, wanted);
	fflush(stdout);
	_exit(0); /* closing a handle waits for the fetch under way */
}

/* The last message of every partition: shows that a broker that just started does serve. */
static void peek(void) {
	rd_kafka_t *client = open_consumer();
	rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
	struct cost from = cost_now();
	int64_t total = 0;
	for (int partition = 0; partition < options.partitions; partition++) {
		int64_t start, end = end_of(client, partition, &start);
		total += end;
		if (end == start)
			continue;
		rd_kafka_consume_start(topic, partition, end - 1);
		rd_kafka_message_t *message = rd_kafka_consume(topic, partition, 30000);
		if (!message || message->err)
			fail(3, "partition %d: its last message did not come", partition);
		check_message(message, end - 1);
		rd_kafka_message_destroy(message);
		rd_kafka_consume_stop(topic, partition);
	}
	print_cost(from, cost_now(), total);
	fflush(stdout);
	_exit(0);
}

/* --- latency --------------------------------------------------------------------------------- */

static int64_t *due_at, *publish_ns, *arrival_ns;
static volatile int64_t arrived;

static void note_ack(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
	(void)client, (void)opaque;
	int64_t index = (int64_t)(intptr_t)message->_private;
	if (message->err)
		note_failure(message->err);
	publish_ns[index] = now_ns() - due_at[index];
	acked++;
}

static void *receive(void *argument) {
	(void)argument;
	rd_kafka_t *client = open_client(RD_KAFKA_CONSUMER, basic_conf());
	rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
	int64_t *next = calloc((size_t)options.partitions, sizeof *next);
	for (int i = 0; i < options.partitions; i++)
		rd_kafka_consume_start_queue(topic, i, 0, queue);
	while (arrived < options.messages && !stopped) {
		rd_kafka_message_t *message = rd_kafka_consume_queue(queue, 100);
		if (!message)
			continue;
		if (!message->err) {
			int partition = message->partition;
			int64_t due = check_message(message, next[partition]);
			int64_t index = next[partition]++ * options.partitions + partition;
			arrival_ns[index] = now_ns() - due;
			arrived++;
		} else if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
			fail(3, "consume: %s", rd_kafka_message_errstr(message));
		}
		rd_kafka_message_destroy(message);
	}
	return NULL;
}

static int by_size(const void *left, const void *right) {
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
	return (a > b) - (a < b);
}

static void print_percentiles(const char *name, int64_t *values, int64_t count) {
	static const double POINTS[] = {50, 90, 99, 99.9};
	qsort(values, (size_t)count, sizeof *values, by_size);
	printf("\"%s\": {", name);
	for (size_t i = 0; i < sizeof POINTS / sizeof *POINTS; i++)
		printf("\"p%g\": %.3f, ", POINTS[i],
		       (double)values[(int64_t)((double)(count - 1) * POINTS[i] / 100)] / 1e6);
	printf("\"max\": %.3f}", (double)values[count - 1] / 1e6);
}

static void wait_until(int64_t when) {
	struct timespec time = {when / 1000000000LL, when % 1000000000LL};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

static void latency(void) {
	size_t count = (size_t)options.messages;
	due_at = calloc(count, sizeof *due_at);
	publish_ns = calloc(count, sizeof *publish_ns);
	arrival_ns = calloc(count, sizeof *arrival_ns);
	prctl(PR_SET_TIMERSLACK, 1);
	rd_kafka_t *client = open_producer(note_ack, 1);
	rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
	char *payload = malloc((size_t)options.size);
	pthread_t receiver = start_thread(receive, NULL);
	start_thread(poll_forever, client);
	usleep(500000);
	struct cost from = cost_now();
	int64_t late_ns_max = 0;
	for (int64_t i = 0; i < options.messages; i++) {
		int64_t due = from.at + (int64_t)((double)i * 1e9 / (double)options.rate);
		int partition = (int)(i % options.partitions);
		if (now_ns() < due)
			wait_until(due);
		int64_t late = now_ns() - due;
		if (i >= options.warm_up && late > late_ns_max)
			late_ns_max = late;
		due_at[i] = due;
		make_message(payload, partition, i / options.partitions, due);
		while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, payload,
		                        (size_t)options.size, NULL, 0, (void *)(intptr_t)i) != 0) {
			if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
				fail(3, "produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
			usleep(100);
		}
	}
	struct cost sent = cost_now();
	while (rd_kafka_outq_len(client) > 0)
		rd_kafka_flush(client, 100);
	pthread_join(receiver, NULL);
	if (failures)
		fail(3, "%lld messages not delivered: %s", (long long)failures, first_failure);
	if (arrived != options.messages || acked != options.messages)
		fail(1, "%lld of %lld arrived", (long long)arrived, (long long)options.messages);
	int64_t kept = options.messages - options.warm_up;
	printf("{\"messages\": %lld, \"rate\": %.0f, \"late_ms_max\": %.3f, \"cpu\": %.3f, ",
	       (long long)kept, (double)options.messages * 1e9 / (double)(sent.at - from.at),
	       (double)late_ns_max / 1e6, sent.user + sent.system - from.user - from.system);
	print_percentiles("publish_ms", publish_ns + options.warm_up, kept);
	printf(", ");
	print_percentiles("end_to_end_ms", arrival_ns + options.warm_up, kept);
	printf("}\n");
	fflush(stdout);
	_exit(0);
}

/* --- topics ---------------------------------------------------------------------------------- */

static void demand_success(const rd_kafka_topic_result_t *result) {
	if (rd_kafka_topic_result_error(result))
		fail(3, "%s: %s", rd_kafka_topic_result_name(result),
		     rd_kafka_topic_result_error_string(result));
}

static void change_topic(int creates) {
	char error[256], name[128];
	const char *value;
	size_t count;
	rd_kafka_t *client = open_producer(delivered, 0);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
	rd_kafka_AdminOptions_t *admin = rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_ANY);
	rd_kafka_AdminOptions_set_request_timeout(admin, 60000, error, sizeof error);
	struct cost from = cost_now();
	if (creates) {
		rd_kafka_NewTopic_t *topic =
		    rd_kafka_NewTopic_new(options.topic, options.partitions, -1, error, sizeof error);
		for (int i = 0; i < options.topic_count; i++) {
			split(options.topic_properties[i], name, sizeof name, &value);
			rd_kafka_NewTopic_set_config(topic, name, value);
		}
		rd_kafka_CreateTopics(client, &topic, 1, admin, queue);
	} else {
		rd_kafka_DeleteTopic_t *topic = rd_kafka_DeleteTopic_new(options.topic);
		rd_kafka_DeleteTopics(client, &topic, 1, admin, queue);
	}
	rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 60000);
	if (!event || rd_kafka_event_error(event))
		fail(3, "%s", event ? rd_kafka_event_error_string(event) : "no answer");
	const rd_kafka_topic_result_t **results =
	    creates
	        ? rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count)
	        : rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &count);
	for (size_t i = 0; i < count; i++)
		demand_success(results[i]);
	print_cost(from, cost_now(), 0);
	fflush(stdout);
	_exit(0);
}

/* --- the command line ------------------------------------------------------------------------ */

static void read_options(int argc, char **argv) {
	int flag;
	options.command = argv[1];
	while ((flag = getopt(argc - 1, argv + 1, "b:t:p:n:s:r:w:l:X:T:k")) != -1) {
		switch (flag) {
		case 'b': options.brokers = optarg; break;
		case 't': options.topic = optarg; break;
		case 'p': options.partitions = atoi(optarg); break;
		case 'n': options.messages = atoll(optarg); break;
		case 's': options.size = atoi(optarg); break;
		case 'r': options.rate = atoll(optarg); break;
		case 'w': options.warm_up = atoll(optarg); break;
		case 'l': options.limit_seconds = atoi(optarg); break;
		case 'k': options.counts_acks = 1; break;
		case 'X': options.client_properties[options.client_count++] = optarg; break;
		case 'T': options.topic_properties[options.topic_count++] = optarg; break;
		default: exit(2);
		}
		if (options.client_count == PROPERTIES_MAX || options.topic_count == PROPERTIES_MAX)
			fail(2, "at most %d settings", PROPERTIES_MAX - 1);
	}
	if (!options.brokers || !options.topic)
		fail(2, "-b HOST:PORT and -t TOPIC are needed");
	if (options.partitions < 1 || options.partitions > PARTITIONS_MAX)
		fail(2, "1 to %d partitions", PARTITIONS_MAX);
	if (options.size < HEAD_BYTES || options.size > POOL_BYTES / 2)
		fail(2, "messages have %d to %d bytes", HEAD_BYTES, POOL_BYTES / 2);
}

static void too_long(int signal) {
	static const char text[] = "gqbench: took too long\n";
	(void)signal;
	if (write(2, text, sizeof text - 1) < 0)
		_exit(4);
	_exit(3);
}

int main(int argc, char **argv) {
	if (argc < 2)
		fail(2, "create, delete, produce, touch, consume, latency or peek?");
	read_options(argc, argv);
	make_pool();
	signal(SIGALRM, too_long);
	signal(SIGTERM, on_signal);
	alarm((unsigned)options.limit_seconds);
	if (!strcmp(options.command, "create"))
		change_topic(1);
	else if (!strcmp(options.command, "delete"))
		change_topic(0);
	else if (!strcmp(options.command, "produce"))
		produce();
	else if (!strcmp(options.command, "touch"))
		touch();
	else if (!strcmp(options.command, "consume"))
		consume();
	else if (!strcmp(options.command, "latency") && options.rate > 0 &&
	         options.messages > options.warm_up)
		latency();
	else if (!strcmp(options.command, "peek"))
		peek();
	else
		fail(2, "%s: no such command, or not its options", options.command);
	fflush(stdout);
	_exit(0);
}
