// The scenarios of scenarios/cross-check for ns-3 (3.37 and later), as a rival and as a cross-check.
//
//   cross-check dumbbell [SEED [TYPE]] | cbr-line [SEED] | multipath-40g [SEED]
//
// TYPE: TcpNewReno (default), TcpLinuxReno, TcpCubic, ... Queues are the devices' drop-tail ones, in bytes; ns-3's traffic
// control above them is taken out. Prints lines of KEY VALUE.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

Ptr<UniformRandomVariable>
Uniform()
{
    return CreateObject<UniformRandomVariable>();
}

// A link with addresses of its own, without traffic control.
Ipv4InterfaceContainer
Join(Ptr<Node> a, Ptr<Node> b, const std::string& rate, const std::string& delay, const std::string& queue)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", StringValue(delay));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(queue));
    NetDeviceContainer devices = link.Install(a, b);
    static Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    addresses.NewNetwork();
    TrafficControlHelper().Uninstall(devices);
    return interfaces;
}

// A constant rate of datagrams whose packets are `size` bytes on the link (PPP's 2 bytes, IP's 20 and UDP's 8 included).
void
Constant(Ptr<Node> from, Ipv4Address to, uint16_t port, double rate, uint32_t size, double start)
{
    const uint32_t payload = size - 30;
    OnOffHelper source("ns3::UdpSocketFactory", InetSocketAddress(to, port));
    source.SetConstantRate(DataRate(static_cast<uint64_t>(rate * payload / size)), payload);
    source.Install(from).Start(Seconds(start));
}

Ptr<PacketSink>
Sink(const std::string& factory, Ptr<Node> at, uint16_t port)
{
    PacketSinkHelper sink(factory, InetSocketAddress(Ipv4Address::GetAny(), port));
    ApplicationContainer installed = sink.Install(at);
    installed.Start(Seconds(0));
    return DynamicCast<PacketSink>(installed.Get(0));
}

// s0 ... s9  --10 Mbit/s, 2 ms--  r0  --2 Mbit/s, 6 ms, 25,000 bytes--  r1  --10 Mbit/s, 2 ms--  d0 ... d9
int
Dumbbell(const std::string& type)
{
    const int senders = 10;
    const double duration = 500;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::" + type));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 20));
    NodeContainer routers(2);
    NodeContainer sources(senders);
    NodeContainer sinks(senders);
    InternetStackHelper stack;
    for (auto& nodes : {routers, sources, sinks})
    {
        stack.Install(nodes);
    }
    Join(routers.Get(0), routers.Get(1), "2Mbps", "6ms", "25000B");
    std::vector<Ptr<PacketSink>> counters;
    Ptr<UniformRandomVariable> start = Uniform();
    for (int i = 0; i < senders; i++)
    {
        Join(sources.Get(i), routers.Get(0), "10Mbps", "2ms", "1000p");
        Ipv4InterfaceContainer last = Join(routers.Get(1), sinks.Get(i), "10Mbps", "2ms", "1000p");
        counters.push_back(Sink("ns3::TcpSocketFactory", sinks.Get(i), 5000));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(last.GetAddress(1), 5000));
        bulk.SetAttribute("SendSize", UintegerValue(14480));
        bulk.Install(sources.Get(i)).Start(Seconds(start->GetValue(0, 1)));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    Simulator::Stop(Seconds(duration));
    Simulator::Run();
    double sum = 0;
    double squares = 0;
    for (auto& counter : counters)
    {
        const double rate = counter->GetTotalRx() * 8.0 / duration;
        sum += rate;
        squares += rate * rate;
    }
    std::printf("total_kbit %.1f\njain %.6f\n", sum / 1000, sum * sum / (senders * squares));
    return 0;
}

// n0 --> n1 --> n2 --> n3 --> n4, each 622 Mbit/s, 0.1 ms, 200,000 bytes; a source at each of n0 to n3, all to n4
int
Line()
{
    const int links = 4;
    const double rate = 622e6;
    NodeContainer nodes(links + 1);
    InternetStackHelper().Install(nodes);
    Ipv4Address far;
    for (int i = 0; i < links; i++)
    {
        far = Join(nodes.Get(i), nodes.Get(i + 1), "622Mbps", "0.1ms", "200000B").GetAddress(1);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    std::vector<Ptr<PacketSink>> counters;
    Ptr<UniformRandomVariable> draw = Uniform();
    for (int i = 0; i < links; i++)
    {
        counters.push_back(Sink("ns3::UdpSocketFactory", nodes.Get(links), 5000 + i));
        const double drift = draw->GetValue(-0.001, 0.001);
        Constant(nodes.Get(i), far, 5000 + i, rate * (1 + drift), 1000, draw->GetValue(0, 0.0001));
    }
    Simulator::Stop(Seconds(1));
    Simulator::Run();
    double all = 0;
    for (auto& counter : counters)
    {
        all += counter->GetTotalRx();
    }
    std::printf("shares");
    for (auto& counter : counters)
    {
        std::printf(" %.2f", 100 * counter->GetTotalRx() / all);
    }
    std::printf("\npackets %.0f\n", all / 970);
    return 0;
}

// a ==(four links of 10 Gbit/s, 5 us)== b, a source a link, 192 bytes on the link
int
Multipath()
{
    const int links = 4;
    const double rate = 10e9;
    NodeContainer nodes(2);
    InternetStackHelper().Install(nodes);
    std::vector<Ptr<PacketSink>> counters;
    Ptr<UniformRandomVariable> draw = Uniform();
    for (int i = 0; i < links; i++)
    {
        Ipv4InterfaceContainer ends = Join(nodes.Get(0), nodes.Get(1), "10Gbps", "5us", "1000000B");
        counters.push_back(Sink("ns3::UdpSocketFactory", nodes.Get(1), 5000 + i));
        const double drift = draw->GetValue(-0.001, 0.001);
        Constant(nodes.Get(0), ends.GetAddress(1), 5000 + i, rate * (1 + drift), 192, 0);
    }
    Simulator::Stop(Seconds(0.05));
    Simulator::Run();
    double all = 0;
    for (auto& counter : counters)
    {
        all += counter->GetTotalRx();
    }
    std::printf("packets %.0f\n", all / 162);
    return 0;
}

} // namespace

int
main(int argc, char** argv)
{
    const std::string scenario = argc > 1 ? argv[1] : "";
    RngSeedManager::SetRun(argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1);
    int status = 2;
    if (scenario == "dumbbell")
    {
        status = Dumbbell(argc > 3 ? argv[3] : "TcpNewReno");
    }
    else if (scenario == "cbr-line")
    {
        status = Line();
    }
    else if (scenario == "multipath-40g")
    {
        status = Multipath();
    }
    else
    {
        std::cerr << "usage: cross-check dumbbell|cbr-line|multipath-40g [SEED [TCP]]\n";
        return 2;
    }
    Simulator::Destroy();
    return status;
}
