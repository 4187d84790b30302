# The line of links for ns-2: scenarios/cross-check/cbr-line.toml again, as a rival and as a cross-check.
#
#   n0 --> n1 --> n2 --> n3 --> n4     each 622 Mbit/s, 0.1 ms, 200,000 bytes
#
#   ns cbr-line.tcl [SEED [SECONDS]]
#
# At each of n0 to n3 a source of 622 Mbit/s in packets of 1000 bytes, all to n4; clocks off by up to 1000 ppm. Prints each
# flow's share of the last link in per cent. FIFO queues give 12.5, 12.5, 25, 50; ns-2's packets take no time in a node, so that
# what comes over a link keeps its phase to the next link's departures, and wins or loses by that phase.

set seed [expr {$argc > 0 ? [lindex $argv 0] : 1}]
set duration [expr {$argc > 1 ? [lindex $argv 1] : 1.0}]
set links 4
set rate 622e6

if {[info exists env(LEAN)]} {
    # Only the headers that are used: as it is, ns-2 carries those of all its protocols in every packet.
    remove-all-packet-headers
    add-packet-header IP RTP
}
ns-random $seed
set draw [new RNG]

Queue/DropTail set queue_in_bytes_ true
Queue/DropTail set mean_pktsize_ 1000

set ns [new Simulator]
for {set i 0} {$i <= $links} {incr i} { set n($i) [$ns node] }
for {set i 0} {$i < $links} {incr i} {
    $ns simplex-link $n($i) $n([expr {$i + 1}]) $rate 0.1ms DropTail
    $ns queue-limit $n($i) $n([expr {$i + 1}]) 200
}
for {set i 0} {$i < $links} {incr i} {
    set udp($i) [new Agent/UDP]
    $udp($i) set packetSize_ 1000
    $ns attach-agent $n($i) $udp($i)
    set sink($i) [new Agent/LossMonitor]
    $ns attach-agent $n($links) $sink($i)
    $ns connect $udp($i) $sink($i)
    set cbr($i) [new Application/Traffic/CBR]
    $cbr($i) set packetSize_ 1000
    $cbr($i) set rate_ [expr {$rate * (1 + [$draw uniform -0.001 0.001])}]
    $cbr($i) set random_ 0
    $cbr($i) attach-agent $udp($i)
    $ns at [$draw uniform 0 0.0001] "$cbr($i) start"
}

proc finish {} {
    global sink links
    set all 0.0
    for {set i 0} {$i < $links} {incr i} { set all [expr {$all + [$sink($i) set bytes_]}] }
    set shares {}
    for {set i 0} {$i < $links} {incr i} { lappend shares [format "%.2f" [expr {100.0 * [$sink($i) set bytes_] / $all}]] }
    puts "shares $shares"
    puts [format "packets %.0f" [expr {$all / 1000}]]
    exit 0
}
$ns at $duration finish
$ns run
