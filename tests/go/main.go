// The official Go client against a running broker.
//
// Arguments: nameserver, run (a name that makes topics and groups unique), phase. The phase "before" runs all cases;
// "after" runs, once the broker has been restarted, the one that looks at what the first left behind.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	queues = 4
	// How long a case waits for its messages. A member of a new group may wait for one rebalance, 20 s.
	arriveWithin = 60 * time.Second
	// The client writes its offsets 10 s after its start and then each 5 s; its shutdown may lose them.
	offsetsWrittenAfter = 11 * time.Second
)

var namesrv, run string

func main() {
	rlog.SetLogLevel("fatal")
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: official-go-client NAMESRV RUN before|after")
		os.Exit(2)
	}
	namesrv, run = os.Args[1], os.Args[2]
	cases := map[string][]struct {
		name string
		body func() error
	}{
		"before": {
			{"go-1000-messages-by-tag", thousandMessagesByTag},
			{"go-broadcast", broadcast},
			{"go-ordered", ordered},
			{"go-before-restart", beforeRestart},
		},
		"after": {{"go-after-restart", afterRestart}},
	}[os.Args[3]]
	passed, failed := 0, 0
	for _, c := range cases {
		begun := time.Now()
		if err := c.body(); err != nil {
			failed++
			fmt.Printf("FAIL %s: %v\n", c.name, err)
		} else {
			passed++
			fmt.Printf("PASS %s (%d ms)\n", c.name, time.Since(begun).Milliseconds())
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}

// 1,000 messages in all four ways of sending; a consumer of two of three tags gets exactly its own.
func thousandMessagesByTag() error {
	topic := "go-tags-" + run
	p, err := newProducer(topic)
	if err != nil {
		return err
	}
	defer p.Shutdown()
	box := newInbox()
	c, err := newConsumer("go-tags-group-"+run, topic, "A || C", box)
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := sendThousand(p, topic); err != nil {
		return err
	}
	var want []string
	for n := 0; n < 1000; n++ {
		if n%3 != 1 {
			want = append(want, fmt.Sprintf("m%d", n))
		}
	}
	if err := box.awaitExactly(want); err != nil {
		return err
	}
	if len(box.byQueue) != queues {
		return fmt.Errorf("messages came from %d queues, not %d", len(box.byQueue), queues)
	}
	return nil
}

func sendThousand(p rocketmq.Producer, topic string) error {
	ctx := context.Background()
	for n := 0; n < 250; n++ {
		result, err := p.SendSync(ctx, message(topic, n))
		if err != nil || result.Status != primitive.SendOK {
			return fmt.Errorf("send %d: %v %v", n, result, err)
		}
	}
	answers := make(chan error, 250)
	for n := 250; n < 500; n++ {
		err := p.SendAsync(ctx, func(_ context.Context, _ *primitive.SendResult, err error) { answers <- err }, message(topic, n))
		if err != nil {
			return fmt.Errorf("asynchronous send %d: %w", n, err)
		}
	}
	for n := 250; n < 500; n++ {
		select {
		case err := <-answers:
			if err != nil {
				return fmt.Errorf("an asynchronous send: %w", err)
			}
		case <-time.After(arriveWithin):
			return errors.New("an asynchronous send was not answered")
		}
	}
	for n := 500; n < 750; n++ {
		if err := p.SendOneWay(ctx, message(topic, n)); err != nil {
			return fmt.Errorf("one-way send %d: %w", n, err)
		}
	}
	for n := 750; n < 1000; n += 50 {
		var batch []*primitive.Message
		for m := n; m < n+50; m++ {
			batch = append(batch, message(topic, m))
		}
		if result, err := p.SendSync(ctx, batch...); err != nil || result.Status != primitive.SendOK {
			return fmt.Errorf("batch %d: %v %v", n, result, err)
		}
	}
	return nil
}

// Two members of a broadcasting group: each gets everything.
func broadcast() error {
	topic := "go-broadcast-" + run
	p, err := newProducer(topic)
	if err != nil {
		return err
	}
	defer p.Shutdown()
	boxes := []*inbox{newInbox(), newInbox()}
	for _, box := range boxes {
		c, err := newConsumer("go-broadcast-group-"+run, topic, "*", box, consumer.WithConsumerModel(consumer.BroadCasting))
		if err != nil {
			return err
		}
		defer c.Shutdown()
	}
	if err := sendSome(p, topic, 0, 200); err != nil {
		return err
	}
	for _, box := range boxes {
		if err := box.awaitExactly(names(0, 200)); err != nil {
			return err
		}
	}
	return nil
}

// An orderly member: each queue comes in its order, everything once.
func ordered() error {
	topic := "go-ordered-" + run
	p, err := newProducer(topic)
	if err != nil {
		return err
	}
	defer p.Shutdown()
	box := newInbox()
	c, err := newConsumer("go-ordered-group-"+run, topic, "*", box, consumer.WithConsumerOrder(true))
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := sendSome(p, topic, 0, 400); err != nil {
		return err
	}
	if err := box.awaitExactly(names(0, 400)); err != nil {
		return err
	}
	for queue, offsets := range box.byQueue {
		for index, offset := range offsets {
			if int64(index) != offset {
				return fmt.Errorf("queue %d came in the order %v", queue, offsets)
			}
		}
	}
	return nil
}

func beforeRestart() error {
	topic := "go-restart-" + run
	p, err := newProducer(topic)
	if err != nil {
		return err
	}
	defer p.Shutdown()
	box := newInbox()
	c, err := newConsumer("go-restart-group-"+run, topic, "*", box)
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := sendSome(p, topic, 0, 100); err != nil {
		return err
	}
	if err := box.awaitExactly(names(0, 100)); err != nil {
		return err
	}
	time.Sleep(offsetsWrittenAfter)
	return nil
}

// The same group after a restart of the broker: only what is new.
func afterRestart() error {
	topic := "go-restart-" + run
	p, err := newProducer(topic)
	if err != nil {
		return err
	}
	defer p.Shutdown()
	box := newInbox()
	c, err := newConsumer("go-restart-group-"+run, topic, "*", box)
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := sendSome(p, topic, 100, 150); err != nil {
		return err
	}
	return box.awaitExactly(names(100, 150))
}

// A started producer; its topic has four queues.
func newProducer(topic string) (rocketmq.Producer, error) {
	resolver := primitive.NewPassthroughResolver([]string{namesrv})
	a, err := admin.NewAdmin(admin.WithResolver(resolver))
	if err != nil {
		return nil, err
	}
	defer a.Close()
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(resolver),
		producer.WithGroupName("producer-"+topic),
		producer.WithInstanceName(unique("producer")),
	)
	if err != nil {
		return nil, err
	}
	broker, err := brokerAddress()
	if err != nil {
		return nil, err
	}
	err = a.CreateTopic(context.Background(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(broker),
		admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues))
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	return p, p.Start()
}

// The broker that a topic is made on: given by the caller, because the admin client cannot ask for it.
func brokerAddress() (string, error) {
	address := os.Getenv("RINGMQ_BROKER")
	if address == "" {
		return "", errors.New("RINGMQ_BROKER must be the broker's host:port")
	}
	return address, nil
}

func newConsumer(group, topic, tags string, box *inbox, options ...consumer.Option) (rocketmq.PushConsumer, error) {
	options = append([]consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		consumer.WithGroupName(group),
		consumer.WithInstance(unique(group)),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, options...)
	c, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	if err := c.Subscribe(topic, selector, box.take); err != nil {
		return nil, err
	}
	// The route of a new topic may come a moment later; the client refuses to start without it.
	deadline := time.Now().Add(arriveWithin)
	for {
		if err = c.Start(); err == nil || time.Now().After(deadline) {
			return c, err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func unique(stem string) string { return fmt.Sprintf("%s-%d", stem, time.Now().UnixNano()) }

func sendSome(p rocketmq.Producer, topic string, start, limit int) error {
	for n := start; n < limit; n++ {
		if _, err := p.SendSync(context.Background(), message(topic, n)); err != nil {
			return fmt.Errorf("send %d: %w", n, err)
		}
	}
	return nil
}

func message(topic string, n int) *primitive.Message {
	m := primitive.NewMessage(topic, []byte(fmt.Sprintf("m%d", n)))
	return m.WithTag(string("ABC"[n%3])).WithKeys([]string{fmt.Sprintf("key%d", n)})
}

func names(start, limit int) []string {
	var all []string
	for n := start; n < limit; n++ {
		all = append(all, fmt.Sprintf("m%d", n))
	}
	return all
}

// What a listener was given.
type inbox struct {
	lock    sync.Mutex
	counts  map[string]int
	byQueue map[int][]int64
	arrived chan struct{}
}

func newInbox() *inbox {
	return &inbox{counts: map[string]int{}, byQueue: map[int][]int64{}, arrived: make(chan struct{}, 1)}
}

func (b *inbox) take(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	b.lock.Lock()
	for _, m := range messages {
		b.counts[string(m.Body)]++
		b.byQueue[m.Queue.QueueId] = append(b.byQueue[m.Queue.QueueId], m.QueueOffset)
	}
	b.lock.Unlock()
	select {
	case b.arrived <- struct{}{}:
	default:
	}
	return consumer.ConsumeSuccess, nil
}

// awaitExactly waits for all of these, and fails on one that is missing, twice there, or not wanted.
func (b *inbox) awaitExactly(want []string) error {
	deadline := time.After(arriveWithin)
	for missing := b.missing(want); missing > 0; missing = b.missing(want) {
		select {
		case <-b.arrived:
		case <-deadline:
			return fmt.Errorf("%d of %d messages are missing", missing, len(want))
		}
	}
	time.Sleep(time.Second) // What must not come would have come by now or comes in this second.
	b.lock.Lock()
	defer b.lock.Unlock()
	wanted := map[string]bool{}
	for _, name := range want {
		wanted[name] = true
	}
	for name, count := range b.counts {
		if count != 1 || !wanted[name] {
			return fmt.Errorf("%s came %d times, wanted: %v", name, count, wanted[name])
		}
	}
	return nil
}

func (b *inbox) missing(want []string) int {
	b.lock.Lock()
	defer b.lock.Unlock()
	missing := 0
	for _, name := range want {
		if b.counts[name] == 0 {
			missing++
		}
	}
	return missing
}
