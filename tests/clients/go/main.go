// A client of the public API in Go: another implementation of gRPC and of HTTP/2 than the router's tests use elsewhere.
// Prints a line for each check that passed, and "all right".
//
//	client HOST:PORT
//
// Messages are written by hand, so that no generated code is needed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// Bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                          { return "proto" }
func (rawCodec) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte(nil), b...)
	return nil
}

// Fields of proto/lockstep/v1/generation.proto.
const (
	requestTokenIDs  = 4
	requestStop      = 7
	requestOutput    = 8
	stopMaxTokens    = 1
	stopIgnoreEOS    = 5
	outputLogprobs   = 1
	responseDelta    = 2
	responseFinish   = 3
	deltaTokenIDs    = 2
	getModelModel    = 1
	finishReason     = 2
	finishedByLength = 2
)

func varintField(b []byte, number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), value)
}

func bytesField(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

func generateRequest(maxTokens uint64, logprobs bool) []byte {
	ids := bytesField(nil, 1, []byte{1, 2, 3, 4})
	stop := varintField(varintField(nil, stopMaxTokens, maxTokens), stopIgnoreEOS, 1)
	request := bytesField(bytesField(nil, requestTokenIDs, ids), requestStop, stop)
	if logprobs {
		request = bytesField(request, requestOutput, varintField(nil, outputLogprobs, 3))
	}
	return request
}

// Calls `found` for each field of the message.
func eachField(b []byte, found func(protowire.Number, []byte, uint64)) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var value uint64
		var contents []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			contents, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		found(number, contents, value)
		b = b[n:]
	}
	return nil
}

type answer struct {
	numTokens int
	reason    uint64
}

func (a *answer) add(message []byte) error {
	return eachField(message, func(number protowire.Number, contents []byte, _ uint64) {
		eachField(contents, func(inner protowire.Number, packed []byte, value uint64) {
			switch {
			case number == responseDelta && inner == deltaTokenIDs:
				for len(packed) > 0 {
					_, n := protowire.ConsumeVarint(packed)
					packed = packed[n:]
					a.numTokens++
				}
			case number == responseFinish && inner == finishReason:
				a.reason = value
			}
		})
	})
}

var streaming = &grpc.StreamDesc{ServerStreams: true}

func open(ctx context.Context, conn *grpc.ClientConn, request []byte) (grpc.ClientStream, error) {
	stream, err := conn.NewStream(ctx, streaming, "/lockstep.v1.Generation/Generate")
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(&request); err != nil {
		return nil, err
	}
	return stream, stream.CloseSend()
}

func readAll(stream grpc.ClientStream, a *answer) error {
	for {
		var message []byte
		err := stream.RecvMsg(&message)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.add(message); err != nil {
			return err
		}
	}
}

func generate(ctx context.Context, conn *grpc.ClientConn, maxTokens int) error {
	stream, err := open(ctx, conn, generateRequest(uint64(maxTokens), false))
	if err != nil {
		return err
	}
	var a answer
	if err := readAll(stream, &a); err != nil {
		return err
	}
	if a.numTokens != maxTokens || a.reason != finishedByLength {
		return fmt.Errorf("expected %d tokens, got %+v", maxTokens, a)
	}
	return nil
}

func expectCode(err error, code codes.Code, words string) error {
	if status.Code(err) == code && strings.Contains(status.Convert(err).Message(), words) {
		return nil
	}
	return fmt.Errorf("expected %v with %q, got %v", code, words, err)
}

func streams(ctx context.Context, conn *grpc.ClientConn) error {
	errs := make([]error, 100)
	var group sync.WaitGroup
	for i := range errs {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			errs[i] = generate(ctx, conn, 1+i%20)
		}(i)
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func deadline(ctx context.Context, conn *grpc.ClientConn) error {
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	for err := error(nil); ; err = generate(short, conn, 200) {
		if err != nil {
			return expectCode(err, codes.DeadlineExceeded, "")
		}
	}
}

func cancellation(ctx context.Context, conn *grpc.ClientConn) error {
	for i := 0; i < 50; i++ {
		inner, cancel := context.WithCancel(ctx)
		stream, err := open(inner, conn, generateRequest(200, false))
		if err != nil {
			cancel()
			return err
		}
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			cancel()
			return err
		}
		cancel()
		// What had come before may still be read.
		err = readAll(stream, &answer{})
		if err == nil {
			continue
		}
		if err := expectCode(err, codes.Canceled, ""); err != nil {
			return err
		}
	}
	return generate(ctx, conn, 5)
}

func headers(ctx context.Context, conn *grpc.ClientConn) error {
	with := metadata.AppendToOutgoingContext(ctx, "x-trace", "a b;c", "x-trace-bin", string([]byte{0, 1, 254, 255}),
		"authorization", "Bearer of-no-interest", "x-long", strings.Repeat("v", 4000))
	if err := generate(with, conn, 3); err != nil {
		return err
	}
	tooMuch := metadata.AppendToOutgoingContext(ctx, "x-long", strings.Repeat("v", 60000))
	if err := generate(tooMuch, conn, 3); status.Code(err) != codes.ResourceExhausted && status.Code(err) != codes.Internal {
		return fmt.Errorf("a header of 60000 bytes: %v", err)
	}
	return generate(ctx, conn, 3)
}

func largeMessage(ctx context.Context, conn *grpc.ClientConn) error {
	request := bytesField(nil, getModelModel, []byte(strings.Repeat("x", 1<<20)))
	var reply []byte
	err := conn.Invoke(ctx, "/lockstep.v1.Generation/GetModel", &request, &reply)
	if err := expectCode(err, codes.ResourceExhausted, "larger than max"); err != nil {
		return err
	}
	return generate(ctx, conn, 3)
}

func refusals(ctx context.Context, conn *grpc.ClientConn) error {
	garbage := []byte{0xff, 0xff, 0xff}
	var reply []byte
	if err := expectCode(conn.Invoke(ctx, "/lockstep.v1.Generation/GetModel", &garbage, &reply), codes.InvalidArgument,
		"cannot be parsed"); err != nil {
		return err
	}
	empty := []byte{}
	return expectCode(conn.Invoke(ctx, "/lockstep.v1.Generation/None", &empty, &reply), codes.Unimplemented, "")
}

// One stream is not read while others are.
func slowReader(ctx context.Context, conn *grpc.ClientConn) error {
	const maxTokens = 230
	var slow []grpc.ClientStream
	for i := 0; i < 20; i++ {
		stream, err := open(ctx, conn, generateRequest(maxTokens, true))
		if err != nil {
			return err
		}
		slow = append(slow, stream)
	}
	for i := 0; i < 20; i++ {
		if err := generate(ctx, conn, 20); err != nil {
			return err
		}
	}
	for _, stream := range slow {
		var a answer
		if err := readAll(stream, &a); err != nil {
			return err
		}
		if a.numTokens != maxTokens {
			return fmt.Errorf("expected %d tokens, got %+v", maxTokens, a)
		}
	}
	return nil
}

// An idle stream, over which the library's pings go. Ten seconds are the least that it allows between two.
func keepalives(ctx context.Context, conn *grpc.ClientConn) error {
	inner, cancel := context.WithTimeout(ctx, 22*time.Second)
	defer cancel()
	stream, err := conn.NewStream(inner, streaming, "/grpc.health.v1.Health/Watch")
	if err != nil {
		return err
	}
	empty := []byte{}
	if err := stream.SendMsg(&empty); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	err = readAll(stream, &answer{})
	if err := expectCode(err, codes.DeadlineExceeded, ""); err != nil {
		return err
	}
	return generate(ctx, conn, 3)
}

func dial(address string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	options = append(options, grpc.WithInsecure(), grpc.WithBlock(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	return grpc.DialContext(ctx, address, options...)
}

func run(address string) error {
	// The least window that the library allows; larger ones would grow with what it measures.
	conn, err := dial(address, grpc.WithInitialWindowSize(65535), grpc.WithInitialConnWindowSize(65535))
	if err != nil {
		return err
	}
	defer conn.Close()
	pinging, err := dial(address, grpc.WithKeepaliveParams(keepalive.ClientParameters{
		Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
	if err != nil {
		return err
	}
	defer pinging.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	kept := make(chan error, 1)
	go func() { kept <- keepalives(ctx, pinging) }()
	checks := []struct {
		name string
		run  func(context.Context, *grpc.ClientConn) error
	}{{"streams", streams}, {"deadline", deadline}, {"cancellation", cancellation}, {"headers", headers},
		{"large message", largeMessage}, {"refusals", refusals}, {"slow reader", slowReader}}
	for _, check := range checks {
		if err := check.run(ctx, conn); err != nil {
			return fmt.Errorf("%s: %w", check.name, err)
		}
		fmt.Println(check.name)
	}
	if err := <-kept; err != nil {
		return fmt.Errorf("keepalive: %w", err)
	}
	fmt.Println("keepalive")
	return nil
}

func main() {
	err := errors.New("usage: client HOST:PORT")
	if len(os.Args) == 2 {
		err = run(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("all right")
}
